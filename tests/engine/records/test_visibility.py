"""What a consumer of committed records sees: markers, damage, limits, and logs that grow."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.engine.batches.partition_walk import SegmentLog
from kafkatool.engine.batches.seek import Range
from kafkatool.engine.files.source import FileSource
from kafkatool.engine.log.reading import _Aborted
from kafkatool.engine.records.arrow_rows import ArrowRows
from kafkatool.engine.records.stream import RecordPiece, RecordStream, Start, UnreadPiece
from kafkatool.format.batch import CONTROL_MASK, TRANSACTIONAL_MASK, BatchHeader, NewRecord, read_header
from kafkatool.format.legacy import write_message
from kafkatool.format.state.producer_snapshot import ProducerState, write_snapshot
from kafkatool.format.txn_index import AbortedTxn, write_entries
from tests.engine.transaction_logs import (
    LogMaker,
    judged,
    set_limits,
    shown,
    subject_of,
    with_fate,
    write_logs,
)
from tests.logs import GUEST, TIME

NEVER = 1 << 40


def stream_of(partition: Path, high_watermark: int | None = NEVER, **options: object) -> RecordStream:
    return RecordStream(subject_of(partition, high_watermark), GUEST, **options)  # type: ignore[arg-type]


def test_aborted_and_control_records_are_hidden_and_committed_ones_are_not(tmp_path: Path) -> None:
    log = LogMaker().txn(1).txn(2, 2).plain().abort(1).commit(2).txn(1).commit(1)
    found = judged(stream_of(write_logs(tmp_path, {0: bytes(log.data)})))
    assert shown(found) == [1, 2, 3, 6]
    assert {offset: rule for offset, (rule, _) in found.items() if rule != "shown"} == {
        0: "aborted",
        4: "control",
        5: "control",
        7: "control",
    }
    assert [fate for _, fate in found.values()] == [
        *("aborted", "committed", "committed", "none"),
        *("aborted", "committed", "committed", "committed"),
    ]


def test_a_marker_whose_records_are_compacted_away_says_its_own_fate(tmp_path: Path) -> None:
    log = LogMaker().abort(1).commit(2).txn(3).abort(3).abort(3).plain()
    partition = write_logs(tmp_path, {0: bytes(log.data)})
    found = judged(stream_of(partition))
    assert [fate for _, fate in found.values()] == [
        *("aborted", "committed", "aborted", "aborted", "aborted", "none")
    ]
    for offset, position in enumerate(log.positions):
        stream = stream_of(partition, start=Start(_first_log(partition), position))
        assert judged(stream)[offset] == found[offset]


def test_a_marker_that_cannot_be_read_has_an_unknown_fate(tmp_path: Path) -> None:
    log = LogMaker()
    log._put([NewRecord(b"\0\0\0\7", b"", TIME)], 1, TRANSACTIONAL_MASK | CONTROL_MASK)
    log._put([NewRecord(b"\0", b"", TIME)], 1, TRANSACTIONAL_MASK | CONTROL_MASK)
    found = judged(stream_of(write_logs(tmp_path, {0: bytes(log.data)})))
    assert list(found.values()) == [("control", "unknown"), ("control", "unknown")]


def test_everything_behind_an_open_transaction_is_hidden(tmp_path: Path) -> None:
    log = LogMaker().plain().txn(1).plain().txn(2).commit(2)
    found = judged(stream_of(write_logs(tmp_path, {0: bytes(log.data)})))
    assert shown(found) == [0]
    assert [rule for rule, _ in found.values()] == ["shown", "open", "open", "open", "control"]
    assert with_fate(found, "open") == [1]


def test_a_transaction_may_span_segments(tmp_path: Path) -> None:
    first = LogMaker().txn(1).plain()
    second = LogMaker(offset=2).txn(1).abort(1)
    third = LogMaker(offset=4).txn(1).commit(1).plain()
    logs = {0: bytes(first.data), 2: bytes(second.data), 4: bytes(third.data)}
    found = judged(stream_of(write_logs(tmp_path, logs)))
    assert (shown(found), with_fate(found, "aborted")) == ([1, 4, 6], [0, 2, 3])


def test_checkpoints_hide_what_is_above_and_below_them(tmp_path: Path) -> None:
    log = LogMaker().plain(3).plain(2).plain()
    partition = write_logs(tmp_path, {0: bytes(log.data)}, high_watermark=5, log_start=1)
    found = judged(stream_of(partition, None))
    assert shown(found) == [1, 2, 3, 4]
    assert (found[0][0], found[5][0]) == ("below_log_start", "above_high_watermark")


def test_a_batch_that_reaches_beyond_the_high_watermark_is_hidden_whole(tmp_path: Path) -> None:
    log = LogMaker().plain(3).plain(4)
    partition = write_logs(tmp_path, {0: bytes(log.data)}, high_watermark=5)
    assert shown(judged(stream_of(partition, None))) == [0, 1, 2]


def test_a_transaction_whose_marker_is_above_the_high_watermark_counts_as_open(tmp_path: Path) -> None:
    log = LogMaker().plain().txn(1).plain().commit(1)
    partition = write_logs(tmp_path, {0: bytes(log.data)}, high_watermark=3)
    found = judged(stream_of(partition, None))
    assert [rule for rule, _ in found.values()] == ["shown", "open", "open", "above_high_watermark"]


def test_without_checkpoints_the_log_end_counts(tmp_path: Path) -> None:
    partition = write_logs(tmp_path, {0: bytes(LogMaker().plain(2).data)})
    assert shown(judged(stream_of(partition, None))) == [0, 1]


def test_a_marker_that_may_be_lost_in_damage_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    log = LogMaker().txn(1).txn(2).commit(2).plain().txn(1).abort(1).txn(1).commit(1)
    log.data[log.positions[3] + 70] ^= 1  # the batch that is lost could have been a marker
    found = judged(stream_of(write_logs(tmp_path, {0: bytes(log.data)})))
    assert found[0] == ("unknown", "unknown")
    assert with_fate(found, "committed") == [1, 2, 6, 7]
    assert with_fate(found, "aborted") == [4, 5]
    assert shown(found) == [1, 6]


def test_a_transaction_index_may_know_what_the_damage_hides(tmp_path: Path) -> None:
    log = LogMaker().txn(1).txn(2).abort(1).plain()
    log.data[log.positions[2] + 70] ^= 1
    partition = write_logs(tmp_path, {0: bytes(log.data)})
    index = partition / f"{0:020d}.txnindex"
    index.write_bytes(write_entries([AbortedTxn(0, 1, 0, 2, 1), AbortedTxn(0, 2, 5, 9, 9)]))
    found = judged(stream_of(partition))
    assert (with_fate(found, "aborted"), with_fate(found, "unknown")) == ([0], [1])
    index.write_bytes(b"rubbish")
    assert with_fate(judged(stream_of(partition)), "unknown") == [0, 1]


def test_a_torn_tail_is_the_end_of_the_log_and_leaves_open_what_was_open(tmp_path: Path) -> None:
    log = LogMaker().plain().txn(1).plain().commit(1)
    found = judged(stream_of(write_logs(tmp_path, {0: bytes(log.data[:-5])})))
    assert with_fate(found, "open") == [1]
    assert shown(found) == [0]


def test_zeros_at_the_end_of_a_segment_lose_nothing_where_offsets_go_on(tmp_path: Path) -> None:
    first, second = LogMaker().txn(1), LogMaker(offset=1).abort(1)
    logs = {0: bytes(first.data) + bytes(500), 1: bytes(second.data)}
    found = judged(stream_of(write_logs(tmp_path, logs)))
    assert with_fate(found, "aborted") == [0, 1]


def test_a_range_knows_of_what_was_open_before_it(tmp_path: Path) -> None:
    first, second = LogMaker().txn(1).plain(), LogMaker(offset=2).plain(2)
    partition = write_logs(tmp_path, {0: bytes(first.data), 2: bytes(second.data)})
    assert shown(judged(stream_of(partition, wanted=Range(from_offset=2)))) == []


def test_a_good_snapshot_spares_the_walk_over_older_segments(tmp_path: Path) -> None:
    first, second = LogMaker().txn(1).plain(), LogMaker(offset=2).txn(1).abort(1).plain()
    partition = write_logs(tmp_path, {0: bytes(first.data), 2: bytes(second.data)})
    (partition / f"{2:020d}.snapshot").write_bytes(write_snapshot([ProducerState(1, 0, 0, 0, 0, 0, 0, 0)]))
    (partition / f"{0:020d}.log").write_bytes(b"")
    found = judged(stream_of(partition, wanted=Range(from_offset=2)))
    assert (shown(found), with_fate(found, "aborted")) == ([4], [2, 3])


def test_a_bad_snapshot_is_not_believed(tmp_path: Path) -> None:
    first, second = LogMaker().txn(1).plain(), LogMaker(offset=2).plain()
    partition = write_logs(tmp_path, {0: bytes(first.data), 2: bytes(second.data)})
    (partition / f"{2:020d}.snapshot").write_bytes(write_snapshot([])[:-1] + b"x")
    assert shown(judged(stream_of(partition, wanted=Range(from_offset=2)))) == []


def test_old_formats_are_read_too(tmp_path: Path) -> None:
    data = write_message(0, b"a", b"1", magic=0) + write_message(1, None, b"2", timestamp_ms=7)
    log = LogMaker(bytearray(data), 2).plain().txn(1)
    found = judged(stream_of(write_logs(tmp_path, {0: bytes(log.data)})))
    assert shown(found) == [0, 1, 2]


def test_a_log_that_grows_is_shown_as_it_is_decided(tmp_path: Path) -> None:
    log = LogMaker().plain().txn(1, 2).plain()
    partition = write_logs(tmp_path, {0: bytes(log.data)}, high_watermark=4)
    stream = stream_of(partition, None, follows=True, waits=True)
    assert shown(judged(stream)) == [0]
    assert judged(stream) == {}
    log.commit(1).txn(1).abort(1).plain()
    (partition / f"{0:020d}.log").write_bytes(log.data)
    stream.look_again()
    assert judged(stream) == {}
    set_limits(tmp_path, log.offset)
    stream.look_again()
    assert shown(judged(stream)) == [1, 2, 3, 7]


def test_a_batch_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    log = LogMaker().plain()
    end = len(log.data)
    log.plain()
    partition = write_logs(tmp_path, {0: bytes(log.data[: end + 40])})
    stream = stream_of(partition, follows=True)
    assert shown(judged(stream)) == [0]
    (partition / f"{0:020d}.log").write_bytes(log.data)
    stream.look_again()
    assert shown(judged(stream)) == [1]


def test_a_batch_that_is_being_written_over_zeros_is_waited_for(tmp_path: Path) -> None:
    """In a preallocated log neither the size nor the header changes when the rest of a batch arrives."""
    log = LogMaker().plain()
    end = len(log.data)
    log.plain()
    room = bytes(5000)
    partition = write_logs(tmp_path, {0: bytes(log.data[: end + 65]) + room})
    stream = stream_of(partition, follows=True)
    assert shown(judged(stream)) == [0]
    stream.look_again()
    assert judged(stream) == {}
    path = partition / f"{0:020d}.log"
    with path.open("r+b") as file:
        file.write(log.data)
    stream.look_again()
    assert shown(judged(stream)) == [1]


def test_damage_is_told_as_soon_as_something_good_is_behind_it(tmp_path: Path) -> None:
    log = LogMaker().plain().plain()
    log.data[log.positions[1] + 70] ^= 1
    partition = write_logs(tmp_path, {0: bytes(log.data)})
    stream = stream_of(partition, follows=True)
    assert [isinstance(piece, UnreadPiece) for piece in stream.pieces()] == [False]
    log.plain()
    (partition / f"{0:020d}.log").write_bytes(log.data)
    stream.look_again()
    assert [isinstance(piece, UnreadPiece) for piece in stream.pieces()] == [True, False]


def test_what_is_written_between_two_looks_is_not_taken_for_committed(tmp_path: Path) -> None:
    """The walk that looks ahead is at the end that the log had when it began."""
    log = LogMaker().txn(1).commit(1)
    partition = write_logs(tmp_path, {0: bytes(log.data)})
    stream = stream_of(partition, follows=True, waits=True)
    assert shown(judged(stream)) == [0]
    log.txn(2).plain()
    (partition / f"{0:020d}.log").write_bytes(log.data)
    assert judged(stream) == {}
    log.abort(2).txn(1)
    (partition / f"{0:020d}.log").write_bytes(log.data)
    stream.look_again()
    assert shown(judged(stream)) == [3]


def test_a_preallocated_log_is_followed_without_reading_its_zeros_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogMaker().plain()
    partition = write_logs(tmp_path, {0: bytes(log.data) + bytes(5 << 20)})
    stream = stream_of(partition, follows=True)
    assert shown(judged(stream)) == [0]
    reads: list[int] = []
    pread = os.pread
    with monkeypatch.context() as patched:
        patched.setattr(
            FileSource, "_read_fully", lambda self, at, size: _counted(pread, self, at, size, reads)
        )
        stream.look_again()
        assert judged(stream) == {}
    assert sum(reads) < 1 << 20
    log.plain()
    (partition / f"{0:020d}.log").write_bytes(bytes(log.data) + bytes(5 << 20))
    stream.look_again()
    assert shown(judged(stream)) == [1]


def _counted(
    pread: Callable[[int, int, int], bytes], source: FileSource, at: int, size: int, reads: list[int]
) -> bytes:
    reads.append(size)
    return pread(source._fd, size, at)


def test_a_roll_and_a_deletion_do_not_lose_the_place(tmp_path: Path) -> None:
    log = LogMaker().plain()
    partition = write_logs(tmp_path, {0: bytes(log.data)})
    stream = stream_of(partition, follows=True)
    assert shown(judged(stream)) == [0]
    log.plain()
    second, third = LogMaker(offset=2).plain(), LogMaker(offset=3).plain()
    write_logs(tmp_path, {0: bytes(log.data), 2: bytes(second.data)})
    stream.look_again()
    assert shown(judged(stream)) == [1, 2]
    write_logs(tmp_path, {3: bytes(third.data)})
    (partition / f"{0:020d}.log").unlink()
    (partition / f"{2:020d}.log").unlink()
    stream.look_again()
    assert shown(judged(stream)) == [3]


def test_a_directory_may_be_called_like_a_log(tmp_path: Path) -> None:
    first, second = LogMaker().txn(1).plain(), LogMaker(offset=2).plain()
    partition = write_logs(tmp_path / "x.log", {0: bytes(first.data), 2: bytes(second.data)})
    (tmp_path / "x.snapshot").write_bytes(write_snapshot([]))
    assert shown(judged(stream_of(partition, wanted=Range(from_offset=2)))) == []


@given(st.data())
def test_no_damage_is_an_error_and_none_invents_a_record(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    log = _random_log(random.Random(data.draw(st.integers(0, 99))), 30)
    # The checksum does not cover offsets, so what stands where is not known for certain.
    values = {b"v%d" % offset for offset in range(log.offset)}
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(log.data) - 1))
        piece = data.draw(st.binary(max_size=40))
        log.data[at : at + data.draw(st.integers(0, 40))] = piece
    partition = write_logs(tmp_path_factory.mktemp("log"), {0: bytes(log.data)})
    rows = ArrowRows(["orders"], with_visibility=True)
    for piece_or_bad in stream_of(partition).pieces():
        if not isinstance(piece_or_bad, RecordPiece):
            continue
        columns = piece_or_bad.columns
        table = rows.batch(piece_or_bad, np.arange(len(columns)), "orders", 0)
        table.validate(full=True)
        for row in table.to_pylist():
            assert row["is_control"] or row["value"] in values


@pytest.mark.parametrize("seed", range(20))
def test_a_walk_from_anywhere_says_the_same(tmp_path: Path, seed: int) -> None:
    log = _random_log(random.Random(seed), 60)
    partition = write_logs(tmp_path, {0: bytes(log.data)})
    whole = judged(stream_of(partition))
    subject = subject_of(partition, NEVER)
    for start in random.Random(seed).sample(log.positions, 5):
        stream = RecordStream(subject, GUEST, start=Start(_first_log(partition), start))
        assert judged(stream).items() <= whole.items()


@given(st.integers(0, 1 << 32), st.integers(1, 80))
def test_fates_are_those_that_the_rule_for_consumers_gives(
    tmp_path_factory: pytest.TempPathFactory, seed: int, count: int
) -> None:
    log = _random_log(random.Random(seed), count)
    partition = write_logs(tmp_path_factory.mktemp("log"), {0: bytes(log.data)})
    found = judged(stream_of(partition))
    assert shown(found) == _shown_by_the_book(log)


def _first_log(partition: Path) -> SegmentLog:
    return SegmentLog(0, str(partition / f"{0:020d}.log"))


def _random_log(chance: random.Random, count: int) -> LogMaker:
    log = LogMaker()
    for _ in range(count):
        producer = chance.randrange(4)
        kind = chance.choice(["plain", "txn", "txn", "txn", "commit", "abort"])
        if kind == "plain":
            log.plain(chance.randint(1, 3))
        elif kind == "txn":
            log.txn(producer, chance.randint(1, 3))
        else:
            getattr(log, kind)(producer)
    return log


def _shown_by_the_book(log: LogMaker) -> list[int]:
    """A broker's list of aborted transactions and last stable offset, then a consumer's walk."""
    headers = [read_header(log.data, at) for at in log.positions]
    aborted, still_open = _aborted_transactions(log, headers)
    stable = min(still_open.values(), default=log.offset)
    walk = _Aborted(aborted)
    return [
        offset
        for header in headers
        if header.last_offset < stable and not walk.hides(header)
        for offset in range(header.base_offset, header.last_offset + 1)
    ]


def _aborted_transactions(
    log: LogMaker, headers: list[BatchHeader]
) -> tuple[list[AbortedTxn], dict[int, int]]:
    still_open: dict[int, int] = {}
    aborted = []
    for header, at in zip(headers, log.positions, strict=True):
        if not header.is_transactional:
            continue
        if not header.is_control:
            still_open.setdefault(header.producer_id, header.base_offset)
            continue
        first = still_open.pop(header.producer_id, None)
        is_abort = log.data[at + 61 + 8 : at + 61 + 9] == b"\0"
        if first is not None and is_abort:
            aborted.append(AbortedTxn(0, header.producer_id, first, header.base_offset, 0))
    return aborted, still_open
