"""The worked cases of the log cleaner, one test each; C26, the crash matrix, is with the swap."""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from kafkatool.engine.batches.records import records_of
from kafkatool.engine.batches.scan import Batch, scan
from kafkatool.engine.compaction import walking
from kafkatool.engine.compaction.cleanable_log import CleanerStops
from kafkatool.engine.compaction.cleaned_segment import Output
from kafkatool.engine.compaction.cleaner import Cleaning, clean
from kafkatool.engine.compaction.dirty_range import BadCheckpoint, Bound, dirty_range
from kafkatool.engine.compaction.offset_map import map_capacity
from kafkatool.engine.files.disk import Disk
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.engine.log.loading import LeftLog, open_log
from kafkatool.format.batch import BatchHeader, Codec, NewRecord, read_header, seal
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.columns import RecordDecoder
from kafkatool.format.kernel.verdicts import Fate
from kafkatool.format.legacy import write_message, write_wrapper
from kafkatool.format.record import write_record
from kafkatool.format.release import Release
from tests.engine.compaction_logs import TIME, CleanLog, read_batches

DAY_MS = 86_400_000


@pytest.fixture
def log(tmp_path: Path) -> CleanLog:
    return CleanLog(tmp_path / "t-0")


# --- keys and tombstones --------------------------------------------------------------------------------


def test_c1_the_last_record_of_a_key_stays_and_the_active_segment_does_not_count(log: CleanLog) -> None:
    log.put("a=1").put("b=1").put("a=2").roll().put("c=1").put("b=2").roll().put("a=3")
    cleaned = log.clean(0)
    assert log.segments() == {0: ["2:a=2", "3:c=1", "4:b=2"], 5: ["5:a=3"]}
    assert cleaned.end_offset == 5
    assert (cleaned.counts.records_read, cleaned.counts.records_kept) == (5, 3)
    assert cleaned.counts.removed[Fate.SUPERSEDED] == 2


@pytest.mark.parametrize("codec", Codec)
def test_c2_a_batch_keeps_its_offsets_and_one_that_loses_nothing_its_bytes(
    tmp_path: Path, codec: Codec
) -> None:
    log = CleanLog(tmp_path / "t-0", codec=codec)
    log.put("a=1", "b=1", "c=1").put("a=2", "d=1").roll()
    log.close()
    before = read_batches(log.directory / f"{0:020d}.log")
    assert log.clean(0).end_offset == 5
    assert log.shown() == ["[0-2]{1:b=1,2:c=1}", "[3-4]{3:a=2,4:d=1}"]
    after = read_batches(log.directory / f"{0:020d}.log")
    assert bytes(after[1].data or b"") == bytes(before[1].data or b"")
    assert read_header(bytes(after[0].data or b"")).attributes == codec


def test_c3_records_without_a_key_go_and_the_last_batch_of_the_range_stays_empty(log: CleanLog) -> None:
    log.put("a=1").put("=1").put("=2").roll()
    assert log.clean(0).counts.removed[Fate.UNKEYED] == 2
    assert log.shown() == ["0:a=1", "[2-2]∅"]
    log.put("b=1").roll()
    log.clean(3)
    assert log.shown() == ["0:a=1", "3:b=1"]


def test_c4_a_tombstone_stays_until_its_horizon(log: CleanLog) -> None:
    log.put("a=1").put("a=null").put("b=1").roll()
    assert log.clean(0).counts.horizons_set == 1
    assert log.shown() == ["1:a=null hz 11000", "2:b=1"]
    log.put("c=1").roll().clean(3, 10_999)
    assert log.shown() == ["1:a=null hz 11000", "2:b=1", "3:c=1"]
    log.put("d=1").roll().clean(4, 11_000)
    assert log.shown() == ["2:b=1", "3:c=1", "4:d=1"]


def test_c5_a_horizon_never_moves_and_outlives_the_tombstones(log: CleanLog) -> None:
    log.put("a=null", "b=7", "c=null").put("e=1").roll().clean(0)
    assert log.shown() == ["[0-2]{0:a=null,1:b=7,2:c=null} hz 11000", "3:e=1"]
    log.put("c=5").roll().clean(4, 10_500)
    assert log.shown() == ["[0-2]{0:a=null,1:b=7} hz 11000", "3:e=1", "4:c=5"]
    log.put("z=5").roll().clean(5, 11_000)
    assert log.shown() == ["[0-2]{1:b=7} hz 11000", "3:e=1", "4:c=5", "5:z=5"]


def test_c5_a_horizon_changes_no_timestamp(log: CleanLog) -> None:
    log.put("a=null", "b=7").put("e=1").roll().clean(0)
    batch = read_batches(log.directory / f"{0:020d}.log")[0]
    assert [record.timestamp_ms for record in records_of(batch.header, batch.data or b"")] == [TIME, TIME]
    assert batch.header.max_timestamp == TIME


def test_c6_the_last_batch_of_a_producer_stays_empty_while_the_producer_is_known(log: CleanLog) -> None:
    log.put("a=1", pid=7).put("a=null", pid=7).put("b=1").roll().clean(0)
    assert log.shown() == ["1:a=null hz 11000", "2:b=1"]
    log.put("c=1").roll().clean(3, 11_000)
    assert log.shown() == ["[1-1]∅", "2:b=1", "3:c=1"]
    log.put("d=1").roll().clean(4, TIME + DAY_MS)
    assert log.shown() == ["2:b=1", "3:c=1", "4:d=1"]


def test_c7_the_last_sequence_of_every_producer_stays(log: CleanLog) -> None:
    log.put("k0=0").put("k0=1", pid=1).put("k0=2", pid=2).put("k0=3", pid=3).put("k1=1", pid=2).roll()
    log.clean(0)
    assert log.shown() == ["[1-1]∅", "3:k0=3", "4:k1=1"]


def test_c8_what_tells_a_batch_that_was_sent_again_survives(log: CleanLog) -> None:
    log.put("1=1", "2=2", "3=3", pid=1).put("3=3", "1=1", "4=4", pid=2).put("1=1", "4=4", pid=3).roll()
    log.clean(0)
    assert log.shown() == ["[0-2]{1:2=2}", "[3-5]{3:3=3}", "[6-7]{6:1=1,7:4=4}"]
    headers = [batch.header for batch in read_batches(log.directory / f"{0:020d}.log")]
    assert [header.last_sequence for header in headers] == [2, 2, 1]
    again = write_batch(
        [NewRecord(b"%d" % at, b"x", TIME) for at in (1, 2, 3)],
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
    )
    copy = shutil.copytree(
        log.directory, log.directory.with_name("copy-0"), ignore=shutil.ignore_patterns("*.snapshot")
    )
    with open_log(Disk(), str(copy), log.config, now_ms=TIME, left=LeftLog()) as reloaded:
        known = reloaded.append_as_leader(again, leader_epoch=0, now_ms=TIME)
    assert known is not None
    assert (known.is_duplicate, known.first_offset, known.last_offset) == (True, 0, 2)
    log.put("2=2", pid=4).roll().clean(0)
    assert log.shown() == ["[0-2]∅", "[3-5]{3:3=3}", "[6-7]{6:1=1,7:4=4}", "8:2=2"]


# --- transactions ---------------------------------------------------------------------------------------


def test_c9_an_abort_marker_outlives_its_data_by_a_horizon(log: CleanLog) -> None:
    log.put("a=1", "b=1", pid=1, txn=True).put("a=0").abort(1).put("b=2", pid=1, txn=True).commit(1).roll()
    assert log.aborted() == {0: [(1, 0, 3, 4)]}
    log.clean(0)
    assert log.shown() == ["2:a=0", "3:ABORT", "4:b=2", "5:COMMIT"]
    assert log.aborted() == {0: [(1, 0, 3, 4)]}
    log.put("z=1").roll().clean(6, 20_000)
    assert log.shown() == ["2:a=0", "3:ABORT hz 21000", "4:b=2", "5:COMMIT", "6:z=1"]
    assert log.aborted() == {}
    log.put("z=2").roll().clean(7, 20_999)
    assert log.shown() == ["2:a=0", "3:ABORT hz 21000", "4:b=2", "5:COMMIT", "7:z=2"]
    log.put("z=3").roll().clean(8, 21_000)
    assert log.shown() == ["2:a=0", "4:b=2", "5:COMMIT", "8:z=3"]


def test_c10_a_commit_marker_goes_when_its_data_is_gone(log: CleanLog) -> None:
    log.put("a=1", pid=1, txn=True).commit(1).put("b=1", pid=1, txn=True).commit(1).put("a=2").roll()
    log.clean(0)
    assert log.shown() == ["1:COMMIT", "2:b=1", "3:COMMIT", "4:a=2"]
    log.put("c=1").roll().clean(5, 20_000)
    assert log.shown() == ["1:COMMIT hz 21000", "2:b=1", "3:COMMIT", "4:a=2", "5:c=1"]
    log.put("c=2").roll().clean(6, 21_000)
    assert log.shown() == ["2:b=1", "3:COMMIT", "4:a=2", "6:c=2"]


def test_c11_a_marker_that_is_all_of_a_producer_stays_as_an_empty_batch(log: CleanLog) -> None:
    log.commit(1).put("a=1").put("b=1").roll().clean(0)
    assert log.shown() == ["0:COMMIT hz 11000", "1:a=1", "2:b=1"]
    log.put("c=1").roll().clean(3, 11_000)
    assert log.shown() == ["[0-0]∅", "1:a=1", "2:b=1", "3:c=1"]
    log.put("d=1").roll().clean(4, 12_000)
    assert log.shown() == ["[0-0]∅", "1:a=1", "2:b=1", "3:c=1", "4:d=1"]


# --- a map that is too small ----------------------------------------------------------------------------


def test_c12_a_map_of_one_key_cleans_step_by_step(log: CleanLog) -> None:
    for key in (0, 1, 0, 1, 0):
        log.put(f"{key}=x")
    log.roll()
    assert log.clean(2, capacity=1).end_offset == 3
    assert log.offsets() == [1, 2, 3, 4]
    assert log.clean(3, capacity=1).end_offset == 4
    assert log.offsets() == [2, 3, 4]
    assert log.clean(4, capacity=1).end_offset == 5
    assert log.offsets() == [3, 4]


def test_c13_a_full_map_ends_in_the_middle_of_a_batch(log: CleanLog) -> None:
    log.put("a=1", "b=1").put("c=1", "a=2", "d=1", "b=2").put("c=2").roll()
    assert log.clean(0, capacity=3).end_offset == 3
    assert log.offsets() == [0, 1, 2, 3, 4, 5, 6]
    assert log.clean(3, capacity=3).end_offset == 6
    assert log.shown() == ["[2-5]{2:c=1,3:a=2,4:d=1,5:b=2}", "6:c=2"]
    assert log.clean(6, capacity=3).end_offset == 7
    assert log.shown() == ["[2-5]{3:a=2,4:d=1,5:b=2}", "6:c=2"]


def test_c14_a_tombstone_behind_the_map_gets_its_horizon_all_the_same(log: CleanLog) -> None:
    log.put("a=1").put("b=1").put("a=null").put("c=1").roll()
    cleaned = log.clean(0, capacity=2)
    assert cleaned.offsets.is_full
    assert cleaned.end_offset == 2
    assert log.shown() == ["0:a=1", "1:b=1", "2:a=null hz 11000", "3:c=1"]
    log.clean(2, 11_000, capacity=2)
    assert log.shown() == ["1:b=1", "3:c=1"]


# --- more transactions ----------------------------------------------------------------------------------


def test_c15_the_aborted_last_batch_of_a_producer_counts_as_observed(log: CleanLog) -> None:
    log.put("1=1", pid=1, txn=True).put("2=2", "3=3", pid=1, txn=True).abort(1).roll()
    log.clean(0)
    assert log.shown() == ["[1-2]∅", "3:ABORT"]
    log.clean(0, 20_000)
    assert log.shown() == ["[1-2]∅", "3:ABORT"]
    assert log.aborted() == {0: [(1, 0, 3, 4)]}
    log.put("1=1", "5=5", pid=1, txn=True).commit(1).roll().clean(0)
    assert log.shown() == ["3:ABORT", "[4-5]{4:1=1,5:5=5}", "6:COMMIT"]


@pytest.mark.parametrize("segment_bytes", [1 << 20, 100])
def test_c16_a_transaction_across_segments(tmp_path: Path, segment_bytes: int) -> None:
    log = CleanLog(tmp_path / "t-0", {"internal.segment.bytes": str(segment_bytes)})
    log.put("k=1", pid=1, txn=True).roll().abort(1).roll()
    log.clean(0)
    assert log.shown() == ["[0-0]∅", "1:ABORT"]
    assert list(log.aborted().values()) == [[(1, 0, 1, 2)]]
    assert list(log.aborted()) == [0 if segment_bytes > 1000 else 1]


def test_c16_a_committed_transaction_across_segments_stays(log: CleanLog) -> None:
    log.put("k=1", pid=1, txn=True).roll().commit(1).roll().clean(0)
    assert log.shown() == ["0:k=1", "1:COMMIT"]


def test_c17_sequences_that_are_used_again(log: CleanLog) -> None:
    log.put("1=1", pid=1, txn=True).commit(1).put("2=2", pid=1, txn=True).commit(1)
    log.put("1=1").put("2=2").roll().clean(0)
    assert log.shown() == ["1:COMMIT", "[2-2]∅", "3:COMMIT", "4:1=1", "5:2=2"]
    log.clean(0, 20_000)
    log.clean(0, 21_000)
    assert log.shown() == ["[2-2]∅", "3:COMMIT", "4:1=1", "5:2=2"]


def test_c18_interleaved_transactions_under_a_small_map(tmp_path: Path) -> None:
    log = CleanLog(tmp_path / "t-0", {"delete.retention.ms": "50000"})

    def put(pid: int, first: int) -> None:
        log.put(f"{first}=x", f"{first + 1}=x", pid=pid, txn=True)

    put(1, 1)
    put(2, 2)
    put(1, 3)
    log.commit(1).commit(2)
    put(1, 2)
    log.abort(1)
    put(2, 4)
    put(1, 5)
    log.commit(1).abort(2)
    put(2, 6)
    log.commit(2).roll()
    assert log.clean(0, 10_000, capacity=3).end_offset == 4
    assert log.offsets() == [0, 2, 3, 4, 5, 6, 7, 10, 13, 14, 15, 16, 17, 18, 19]
    assert log.aborted() == {0: [(1, 8, 10, 11), (2, 11, 16, 17)]}
    assert log.clean(4, 20_000, capacity=3).end_offset == 14
    assert log.offsets() == [0, 2, 4, 5, 6, 7, 10, 13, 14, 15, 16, 17, 18, 19]
    assert log.aborted() == {}
    assert {"10:ABORT hz 70000", "16:ABORT hz 70000"} <= set(log.shown())
    assert log.clean(14, 70_000, capacity=3).end_offset == 20
    assert log.offsets() == [0, 2, 4, 5, 6, 7, 13, 15, 17, 18, 19]


def test_c19_a_key_that_looks_like_a_marker_has_nothing_to_do_with_markers(log: CleanLog) -> None:
    key = "\0\0\0\1"
    log.put(f"{key}=1", pid=1, txn=True).commit(1).put("b=1", pid=2, txn=True).commit(2).roll()
    before = log.shown()
    log.clean(0)
    assert log.shown() == before


def test_c23_transactions_that_raise_the_epoch_leave_a_producer_without_data(log: CleanLog) -> None:
    log.put("k=1", pid=1, txn=True).commit(1, 1).put("k=2", pid=1, epoch=1, txn=True).commit(1, 2).put("x=1")
    log.roll().clean(0)
    assert log.shown() == ["1:COMMIT", "2:k=2", "3:COMMIT", "4:x=1"]
    log.put("y=1").roll().clean(5, 20_000)
    assert log.shown() == ["1:COMMIT hz 21000", "2:k=2", "3:COMMIT", "4:x=1", "5:y=1"]
    log.put("k=3").roll().clean(6, 21_000)
    assert log.shown() == ["3:COMMIT", "4:x=1", "5:y=1", "6:k=3"]
    log.put("y=2").roll().clean(7, 30_000)
    log.put("y=3").roll().clean(8, 31_000)
    assert log.shown() == ["[3-3]∅", "4:x=1", "6:k=3", "8:y=3"]


# --- ranges ---------------------------------------------------------------------------------------------


def test_c20_the_range_ends_where_the_next_segment_begins(log: CleanLog) -> None:
    for key in range(10):
        log.put(f"{key}=x")
    log.roll(11).put("z=1", at=11)
    assert log.clean(0).end_offset == 11


def test_c20_and_so_it_does_behind_the_last_of_several(log: CleanLog) -> None:
    for key in range(10):
        log.put(f"{key}=x")
    log.roll(15)
    for at in range(15, 25):
        log.put(f"{at}=x", at=at)
    log.roll(30)
    assert log.clean(0).end_offset == 30


def test_c21_an_open_transaction_holds_the_cleaner(tmp_path: Path) -> None:
    log = CleanLog(tmp_path / "t-0", {"min.compaction.lag.ms": "1000"})
    for key in range(3):
        log.put(f"{key}=x", pid=15, txn=True)
    log.roll()
    found = log.range(0, TIME + 1001, 3)
    assert (found.bound, found.reason) == (0, Bound.STABLE)
    assert found.cleanable_bytes == 0
    log.abort(15).roll()
    found = log.range(0, TIME + 500, 4)
    assert (found.bound, found.reason) == (0, Bound.LAG)
    assert log.range(0, TIME + 1001, 4).bound == 4


def test_c21_the_lag_of_the_marker_alone_holds_only_its_segment(tmp_path: Path) -> None:
    log = CleanLog(tmp_path / "t-0", {"min.compaction.lag.ms": "1000"})
    log.put("a=1").put("b=1").put("c=1").roll()
    old = log.read()
    path = Path(old.segments[0].path).with_suffix(".timeindex")
    assert path.stat().st_size == 12
    log.put("d=1").roll()
    log.close()
    later = (TIME + 5000).to_bytes(8, "big") + (0).to_bytes(4, "big")
    (log.directory / f"{3:020d}.timeindex").write_bytes(later)
    assert (log.range(0, TIME + 1001).bound, log.range(0, TIME + 1001).reason) == (3, Bound.LAG)
    assert log.range(0, TIME + 6000).bound == 4


def test_c22_the_first_young_segment_ends_the_range_whatever_lies_behind_it(tmp_path: Path) -> None:
    log = CleanLog(tmp_path / "t-0", {"min.compaction.lag.ms": "1000"})
    for _ in range(4):
        log.put("a=1").put("b=1").roll()
    log.close()
    young = (TIME + 1001).to_bytes(8, "big") + (1).to_bytes(4, "big")
    (log.directory / f"{4:020d}.timeindex").write_bytes(young)
    assert log.range(0, TIME + 1001).first_uncleanable == 4
    assert log.range(0, TIME + 2001).first_uncleanable == 8


def test_a_range_counts_bytes_as_the_ratio_wants_them(log: CleanLog) -> None:
    for _ in range(3):
        log.put("a=1").put("b=1").roll()
    size = log.read().segments[0].size
    found = log.range(2)
    assert (found.clean_bytes, found.cleanable_bytes) == (size, 2 * size)
    assert found.is_due(0.5)
    assert not found.is_due(2 / 3)
    straddling = log.range(3)
    assert (straddling.clean_bytes, straddling.cleanable_bytes) == (2 * size, 2 * size)


def test_the_numbers_of_a_range(log: CleanLog) -> None:
    """The worked numbers of range selection, scaled: two segments of twice the bytes of a third."""
    for batches in (2, 2, 1):
        for _ in range(batches):
            log.put(*(f"{key}=x" for key in range(50)))
        log.roll()
    log.put("z=1")
    unit = log.read().segments[2].size
    assert [one.size for one in log.read().segments[:3]] == [2 * unit, 2 * unit, unit]
    found = log.range(200)
    assert (found.first_uncleanable, found.clean_bytes, found.cleanable_bytes) == (250, 4 * unit, unit)
    assert found.ratio == pytest.approx(0.2)
    found = log.range(150)
    assert (found.clean_bytes, found.cleanable_bytes) == (4 * unit, 3 * unit)
    assert found.ratio == pytest.approx(3 / 7)
    found = log.range(100, high_watermark=225)
    assert (found.bound, found.first_uncleanable, found.reason) == (225, 200, Bound.STABLE)
    assert found.ratio == 0.5
    assert not found.is_due(0.5)


def test_a_checkpoint_outside_the_log_does_not_count(log: CleanLog) -> None:
    log.put("a=1").roll()
    assert log.range(5).bad_checkpoint is BadCheckpoint.ABOVE_END
    assert log.range(5).first_dirty == 0
    assert log.range(-1).bad_checkpoint is BadCheckpoint.BELOW_START


def test_a_segment_that_waited_too_long_is_due_at_any_ratio(tmp_path: Path) -> None:
    log = CleanLog(tmp_path / "t-0", {"max.compaction.lag.ms": "1000"})
    log.put("a=1").roll()
    assert not log.range(0, TIME + 1000).is_due(1.0)
    assert log.range(0, TIME + 1001).is_due(1.0)


def test_the_map_of_a_broker_by_default_takes_five_million_keys() -> None:
    assert map_capacity() == 5_033_164


# --- segments -------------------------------------------------------------------------------------------


def test_c24_segments_far_apart_are_merged_once_they_are_empty(log: CleanLog) -> None:
    far = 1 << 31
    log.put("a=1").roll(far).put("a=2", at=far).roll(2 * far).put("a=3", at=2 * far)
    log.put("b=1").roll(3 * far)
    log.clean(0)
    assert log.segments() == {
        0: [],
        far: [],
        2 * far: [f"{2 * far}:a=3", f"{2 * far + 1}:b=1"],
        3 * far: [],
    }
    log.put("c=1", at=3 * far).roll().clean(3 * far)
    assert list(log.segments())[:2] == [0, 2 * far]


def test_c25_where_every_record_goes_an_empty_batch_tells_where_the_range_ended(log: CleanLog) -> None:
    log.put("=1").roll().put("=2").roll().put("=3").roll()
    log.clean(0)
    assert log.segments() == {0: ["[2-2]∅"], 3: []}


def test_groups_fill_segments_of_todays_size_in_order(tmp_path: Path) -> None:
    log = CleanLog(tmp_path / "t-0")
    for key in range(5):
        log.put(f"{key}=x").roll()
    size = log.read().segments[0].size
    small = CleanLog(log.directory, {"internal.segment.bytes": str(2 * size)})
    small.clean(0)
    assert list(small.segments()) == [0, 2, 4, 5]


def test_a_second_pass_over_the_same_range_changes_nothing(log: CleanLog) -> None:
    log.put("a=1", "b=1").put("a=2").put("c=null").roll().clean(0)
    before = {path.name: path.read_bytes() for path in log.directory.glob("*.log")}
    log.clean(0, 10_500)
    assert {path.name: path.read_bytes() for path in log.directory.glob("*.log")} == before


def test_what_is_cleaned_has_the_time_of_the_last_segment_it_comes_from(log: CleanLog) -> None:
    log.put("a=1").roll().put("b=1").roll()
    log.close()
    os.utime(log.directory / f"{1:020d}.log", ns=(1, 1_234_567_891_234))
    log.clean(0)
    for extension in ("log", "index", "timeindex"):
        assert (log.directory / f"{0:020d}.{extension}").stat().st_mtime_ns == 1_234_567_000_000


# --- what is not plain ------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_batch_of_very_many_records_is_one_batch(tmp_path: Path, codec: Codec) -> None:
    log = CleanLog(tmp_path / "t-0", codec=codec)
    count = 40_000
    log.put(*(f"{number}=x" for number in range(count))).put("7=y", "39000=y").roll()
    log.clean(0)
    assert log.offsets() == [at for at in range(count + 2) if at not in (7, 39_000)]
    assert len(read_batches(log.directory / f"{0:020d}.log")) == 2


@pytest.mark.parametrize("codec", Codec)
def test_reading_ahead_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: Codec) -> None:
    """Many stretches a segment, each in the memory of the one before the last."""
    monkeypatch.setattr("kafkatool.engine.batches.scan.WINDOW", 2000)
    found = []
    for large in (1 << 40, 0):
        monkeypatch.setattr("kafkatool.engine.compaction.walking._LARGE", large)
        log = CleanLog(tmp_path / f"t-{int(not large)}", codec=codec)
        for number in range(300):
            log.put(f"{number * 7 % 90}=x{number}", f"{number * 11 % 40}={number * 'y'}")
            if number % 100 == 99:
                log.roll()
        cleaned = log.clean(0, capacity=100)
        found.append((cleaned.counts, cleaned.end_offset, log.shown()))
    assert found[0] == found[1]
    assert found[0][0].removed[Fate.SUPERSEDED] > 100


def test_a_reader_that_is_left_early_ends_its_thread(tmp_path: Path) -> None:
    log = CleanLog(tmp_path / "t-0")
    for number in range(50):
        log.put(f"{number}=x")
    segment = log.roll().read().segments[0]
    before = set(threading.enumerate())
    items = walking._ahead(walking._walk(segment, RecordDecoder(), Guest(cache_keep=True), 0))
    next(items)
    (reader,) = set(threading.enumerate()) - before
    items.close()  # type: ignore[attr-defined]
    assert not reader.is_alive()


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("release", [Release.V3_9, Release.V4_3])
def test_old_messages_stay_old_under_3_9_and_become_batches_later(
    tmp_path: Path, magic: int, release: Release
) -> None:
    log = CleanLog(tmp_path / "t-0", release=release)
    pairs = [(b"a", b"1"), (b"b", None), (b"a", b"2"), (b"c", b"3")]
    entries = [
        write_message(at, key, value, magic=magic, timestamp_ms=TIME) for at, (key, value) in enumerate(pairs)
    ]
    wrapped = [
        write_message(at, b"c" if at == 4 else b"d", b"4", magic=magic, timestamp_ms=TIME) for at in (4, 5, 6)
    ]
    data = b"".join(entries) + write_wrapper(wrapped, Codec.GZIP, magic=magic, timestamp_ms=TIME)
    log.log.append_as_follower(data, now_ms=TIME)
    log.roll()
    cleaned = log.clean(0)
    assert log.offsets() == [1, 2, 4, 6]
    assert cleaned.counts.removed[Fate.SUPERSEDED] == 3
    headers = [batch.header for batch in read_batches(log.directory / f"{0:020d}.log")]
    assert {header.magic for header in headers} == {magic if release is Release.V3_9 else 2}
    assert cleaned.counts.horizons_set == (0 if release is Release.V3_9 else 1)


def test_records_that_a_broker_cannot_write_again_stop_the_cleaner(tmp_path: Path) -> None:
    log = CleanLog(tmp_path / "t-0")
    records = [write_record(NewRecord(key, b"x", TIME), delta, TIME) for delta, key in ((1, b"a"), (0, b"b"))]
    log.put("b=0", "c=0").put("c=1")
    header = BatchHeader(3, 0, 0, 2, 0, 0, 2, TIME, TIME, -1, -1, -1, 3)
    last = write_record(NewRecord(b"c", None, TIME), 2, TIME)
    log.log.append_as_follower(seal(header, b"".join([*records, last])), now_ms=TIME)
    log.roll()
    with pytest.raises(CleanerStops, match="offset 3 follows 4") as stopped:
        log.clean(0)
    assert stopped.value.position > 0


@pytest.mark.parametrize(("later", "left"), [("c=1", [0, 1, 2, 3]), ("a=9", [1, 3])])
def test_of_offsets_that_go_to_and_fro_the_last_one_read_counts(
    log: CleanLog, later: str, left: list[int]
) -> None:
    """As in the map of a broker: a record stays that has a higher offset than the one read last."""
    pairs = ((2, b"a"), (0, b"a"), (1, b"b"))
    body = b"".join(write_record(NewRecord(key, b"x", TIME), delta, TIME) for delta, key in pairs)
    header = BatchHeader(0, 0, 0, 2, 0, 0, 2, TIME, TIME, -1, -1, -1, 3)
    log.log.append_as_follower(seal(header, body), now_ms=TIME)
    log.put(later).roll().clean(0)
    assert sorted(log.offsets()) == left


def test_a_range_of_too_many_offsets_for_marks_is_cleaned_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = []
    for most in (64 << 20, 3):
        monkeypatch.setattr("kafkatool.engine.compaction.offset_map._MOST_MARKS", most)
        log = CleanLog(tmp_path / f"t-{most}")
        log.put("a=1", "b=1").put("a=2").roll().put("c=1").put("b=null").roll()
        assert (log.clean(0).offsets.marks is None) is (most == 3)
        shown.append(log.shown())
    assert shown[0] == shown[1]
    assert shown[0][0] == "2:a=2"


@pytest.mark.parametrize("cut", [1, 30, 60])
def test_a_closed_segment_that_ends_in_a_batch_stops_the_cleaner_there(log: CleanLog, cut: int) -> None:
    log.put("a=1").put("a=2").roll()
    log.close()
    path = log.directory / f"{0:020d}.log"
    position = read_batches(path)[1].position
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(CleanerStops) as stopped:
        log.clean(0)
    assert (stopped.value.path, stopped.value.position) == (str(path), position)


def test_a_cleaner_walks_over_wrong_checksums_and_seals_what_it_rewrites(log: CleanLog) -> None:
    log.put("a=1", "b=1").put("a=2", "c=2").put("d=3").roll()
    log.close()
    path = log.directory / f"{0:020d}.log"
    first, second = (batch.position for batch in read_batches(path)[:2])
    data = bytearray(path.read_bytes())
    for end in (second, read_batches(path)[2].position):
        assert data[end - 2] in b"12"
        data[end - 2] ^= 4  # the last value of a batch: 1 becomes 5, 2 becomes 6
    path.write_bytes(data)
    counts = log.clean(0).counts
    assert (counts.bad_checksums, counts.first_bad_checksum) == (2, (str(path), first))
    with open_source(str(path)) as source:
        batches = [item for item in scan(source, chain=True) if isinstance(item, Batch)]
    values = [[record.value for record in records_of(batch.header, batch.data or b"")] for batch in batches]
    assert values == [[b"5"], [b"2", b"6"], [b"3"]]
    assert [batch.is_valid for batch in batches] == [True, False, True]


def test_any_flipped_byte_is_cleaned_over_or_stops_the_cleaner(tmp_path: Path) -> None:
    log = CleanLog(tmp_path / "t-0")
    log.put("a=1", "b=null", pid=7).put("a=2").abort(7).put("c=3").roll()
    log.close()
    path = log.directory / f"{0:020d}.log"
    whole, seen = path.read_bytes(), list[int]()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        with suppress(CleanerStops):
            read = log.read()
            dirty = dirty_range(read, 0, log.config, 10_000)
            how = Cleaning(log.config, 10_000, 1000)
            seen.append(clean(read, dirty, how, Output(Disk(), None)).counts.bad_checksums)
    assert set(seen) == {0, 1}
    assert len(whole) // 4 < len(seen) < len(whole)
