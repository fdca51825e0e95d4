"""What a fetch gets of a partition: whole batches from the right place, whatever index and log look like."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkatool.engine.directory.log_dir import read_log_dir
from kafkatool.engine.files.source import Guest
from kafkatool.engine.serve.partitions import OutOfRangeError, ServedPartition, Serving
from kafkatool.engine.serve.segments import DamagedError
from kafkatool.format.batch import CONTROL_MASK, TRANSACTIONAL_MASK, NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.offset_index import OffsetEntry, write_entries
from kafkatool.format.state.clean_shutdown import write_clean_shutdown
from tests.logs import TIME, batches, walk, write_log
from tests.mutations import flipped

Made = Callable[..., ServedPartition]


@pytest.fixture
def opened(tmp_path: Path) -> Made:
    """The partition `t-0` of a log directory, closed in order or not."""

    def make(*, clean: bool = False, **how: bool | int) -> ServedPartition:
        if clean:
            (tmp_path / ".kafka_cleanshutdown").write_bytes(write_clean_shutdown(1))
        home = read_log_dir(str(tmp_path))
        partition = next(one for one in home.partitions if one.directory == "t-0")
        return ServedPartition("t", 0, partition, home, Serving(Guest(), **how))  # type: ignore[arg-type]

    return make


def fetched(
    partition: ServedPartition, offset: int, size: int = 1 << 20, *, committed: bool = False
) -> bytes:
    found = partition.fetch(offset, size, committed=committed, at_least_one=True).records
    return b"" if found is None else found.file.source.read(found.position, found.size)


def read_all(partition: ServedPartition, size: int = 300) -> list[bytes]:
    """Every batch, as a consumer would come by them, from the start of the log to its end."""
    found, offset = [], partition.state().log_start
    while data := fetched(partition, offset, size):
        at = 0
        while at + 61 <= len(data):
            length = int.from_bytes(data[at + 8 : at + 12], "big") + 12
            if at + length > len(data):
                break
            found.append(data[at : at + length])
            first = int.from_bytes(data[at : at + 8], "big")
            offset = max(offset, first + int.from_bytes(data[at + 23 : at + 27], "big") + 1)
            at += length
    return found


def in_segments(folder: Path, made: list[bytes], each: int, *, index: bool = True) -> None:
    """The batches of three records in segments of so many, with an entry for every second batch."""
    for at in range(0, len(made), each):
        part = made[at : at + each]
        log = write_log(folder, b"".join(part), f"{at * 3:020d}.log")
        positions = [sum(map(len, part[:number])) for number in range(len(part))]
        entries = [OffsetEntry(number * 3 + 2, positions[number]) for number in range(1, len(part), 2)]
        if index:
            log.with_suffix(".index").write_bytes(write_entries(entries))


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("size", [1, 200, 1 << 20])
def test_every_batch_is_served_through_segments(
    tmp_path: Path, opened: Made, index: bool, clean: bool, size: int
) -> None:
    made = batches(20)
    in_segments(tmp_path / "t-0", made, 6, index=index)
    partition = opened(clean=clean)
    assert (partition.state().log_start, partition.state().log_end) == (0, 60)
    assert read_all(partition, size) == made


def test_every_offset_begins_with_its_own_batch(tmp_path: Path, opened: Made) -> None:
    made = batches(20)
    in_segments(tmp_path / "t-0", made, 6)
    partition = opened(clean=True)
    for offset in range(60):
        assert fetched(partition, offset, 1) == made[offset // 3]
    assert fetched(partition, 60) == b""
    for offset in (-1, 61):
        with pytest.raises(OutOfRangeError):
            fetched(partition, offset)


def test_an_index_that_lies_is_found_out(tmp_path: Path, opened: Made) -> None:
    made = batches(20)
    in_segments(tmp_path / "t-0", made, 20)
    for lie in (
        [OffsetEntry(3, 500)],
        [OffsetEntry(10, 13)],
        [OffsetEntry(30, 1 << 20)],
        [OffsetEntry(0, 777)],
    ):
        (tmp_path / "t-0" / "00000000000000000000.index").write_bytes(write_entries(lie))
        assert read_all(opened(clean=True)) == made


def test_a_torn_or_empty_tail_is_the_end_of_the_log(tmp_path: Path, opened: Made) -> None:
    made = batches(5)
    for tail in (made[4][:30], made[4][:-1], bytes(500), b"\0"):
        write_log(tmp_path / "t-0", b"".join(made[:4]) + tail)
        for clean in (False, True):
            partition = opened(clean=clean)
            assert partition.state().log_end == 12
            assert read_all(partition) == made[:4]


def with_a_bad(number: int, made: list[bytes]) -> list[bytes]:
    return [flipped(batch, 70) if at == number else batch for at, batch in enumerate(made)]


def test_damage_is_an_error_at_its_first_offset_and_nowhere_before(tmp_path: Path, opened: Made) -> None:
    made = with_a_bad(4, batches(10))
    write_log(tmp_path / "t-0", b"".join(made))
    partition = opened()
    assert fetched(partition, 0) == b"".join(made[:4])
    assert fetched(partition, 15) == b"".join(made[5:])
    for offset in (12, 13, 14):
        with pytest.raises(DamagedError):
            fetched(partition, offset)


def test_damage_is_left_out_if_that_is_wanted(tmp_path: Path, opened: Made) -> None:
    made = with_a_bad(4, batches(10))
    write_log(tmp_path / "t-0", b"".join(made))
    partition = opened(skips_damage=True, verifies=True)
    assert read_all(partition) == made[:4] + made[5:]
    assert fetched(partition, 13) == b"".join(made[5:])


def test_what_a_clean_shutdown_vouches_for_is_checked_only_when_asked(tmp_path: Path, opened: Made) -> None:
    made = with_a_bad(4, batches(10))
    in_segments(tmp_path / "t-0", made, 5)
    assert read_all(opened(clean=True)) == made
    with pytest.raises(DamagedError):
        read_all(opened(clean=True, verifies=True))


def test_a_bad_last_batch_is_an_error_or_the_end(tmp_path: Path, opened: Made) -> None:
    made = with_a_bad(2, batches(3))
    write_log(tmp_path / "t-0", b"".join(made))
    with pytest.raises(DamagedError):
        fetched(opened(), 6)
    partition = opened(skips_damage=True, verifies=True)
    assert partition.state().log_end == 6
    assert read_all(partition) == made[:2]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.integers(0, 1 << 30))
def test_around_any_damage_every_good_batch_is_served(tmp_path: Path, opened: Made, seed: int) -> None:
    """Base offsets are spared: no checksum covers them, so that nobody can tell what is good then."""
    chance = random.Random(seed)
    made = batches(12)
    data = bytearray(b"".join(made))
    starts = [sum(map(len, made[:number])) for number in range(12)]
    for _ in range(chance.randint(1, 4)):
        at = min(chance.choice(starts) + chance.randrange(8, 80), len(data) - 1)
        match chance.randrange(3):
            case 0:
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                end = min(len(data), at + chance.randrange(20))
                data[at:end] = bytes(end - at)
            case _:
                del data[at : at + chance.randrange(1, 20)]
                break  # the rest stands elsewhere now
    log = write_log(tmp_path / "t-0", bytes(data))
    good = [
        batch
        for batch in walk(log)[0]
        if batch.is_valid and batch.header.magic == 2 and batch.header.last_offset < 1 << 31
    ]
    whole = [bytes(data[one.position : one.position + one.header.size]) for one in good]
    highest, in_order = -1, []
    for batch, raw in zip(good, whole, strict=True):
        if batch.header.last_offset > highest:
            highest = batch.header.last_offset
            in_order.append(raw)
    served = read_all(opened(skips_damage=True, verifies=True))
    assert set(served) <= set(whole)
    assert set(in_order) <= set(served)


def test_readers_stop_at_the_high_watermark_batch_by_batch(tmp_path: Path, opened: Made) -> None:
    made = batches(4)
    write_log(tmp_path / "t-0", b"".join(made))
    assert fetched(opened(high_watermark=6), 0) == b"".join(made[:2])
    assert fetched(opened(high_watermark=7), 0) == b"".join(made[:2])
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nt 0 3\n")
    partition = opened(uses_checkpoint=True)
    assert fetched(partition, 0) == made[0]
    assert fetched(partition, 3) == b""
    assert opened().state().high_watermark == 12


def test_the_log_starts_where_its_checkpoint_says(tmp_path: Path, opened: Made) -> None:
    write_log(tmp_path / "t-0", b"".join(batches(4)))
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 5\n")
    partition = opened()
    assert partition.state().log_start == 5
    with pytest.raises(OutOfRangeError):
        fetched(partition, 4)


def test_an_empty_partition_is_empty_and_one_that_is_not_here_too(tmp_path: Path, opened: Made) -> None:
    write_log(tmp_path / "t-0", b"", "00000000000000000500.log")
    state = opened().state()
    assert (state.log_start, state.log_end, state.high_watermark) == (500, 500, 500)
    placeholder = ServedPartition("t", 1, None, None, Serving(Guest()))
    assert placeholder.fetch(0, 100, committed=True, at_least_one=True).records is None


def transactional(offset: int, producer_id: int, count: int = 2) -> bytes:
    records = [NewRecord(b"k", b"v", TIME) for _ in range(count)]
    return write_batch(
        records,
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=offset,
        attributes=TRANSACTIONAL_MASK,
        partition_leader_epoch=0,
    )


def marker(offset: int, producer_id: int, *, committed: bool) -> bytes:
    from kafkatool.format.schema.control import write_end_marker

    key, value = write_end_marker(committed, 0)
    return write_batch(
        [NewRecord(key, value, TIME)],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        attributes=TRANSACTIONAL_MASK | CONTROL_MASK,
        partition_leader_epoch=0,
    )


def test_readers_of_committed_records_are_told_of_aborts_and_stop_at_what_is_open(
    tmp_path: Path, opened: Made
) -> None:
    data = [
        transactional(0, 1),
        marker(2, 1, committed=False),
        transactional(3, 2),
        marker(5, 2, committed=True),
        transactional(6, 3),
        *batches(4, per_batch=4)[2:],
    ]
    write_log(tmp_path / "t-0", b"".join(data))
    partition = opened()
    state = partition.state()
    assert (state.last_stable, state.high_watermark, state.open_transactions) == (6, 16, {3: 6})
    found = partition.fetch(0, 1 << 20, committed=True, at_least_one=True)
    assert found.aborted == [(1, 0)]
    assert found.records is not None
    assert found.records.size == sum(map(len, data[:4]))
    assert fetched(partition, 0) == b"".join(data)
    assert opened(ignores_transactions=True).state().last_stable == 16
    assert any("still open" in remark for remark in partition.remarks())
