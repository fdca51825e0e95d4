"""Every kind of damage that files can do to each other is found, and nothing that is right is blamed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from struct import pack_into

import pytest

from kafkatool.engine.advice.table import Advice
from kafkatool.engine.batches.damage import FindingClass, Severity
from kafkatool.engine.cluster.view import read_cluster_view
from kafkatool.engine.directory.log_dir import read_partition
from kafkatool.engine.directory.targets import directory_target, expand
from kafkatool.engine.files.source import Guest
from kafkatool.engine.verify.finding import THROWN_AWAY, Finding
from kafkatool.engine.verify.verification import Verification, VerifyRequest
from kafkatool.format.batch import BatchHeader, NewRecord, read_header, seal
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.names import segment_file
from kafkatool.format.offset_index import ENTRY as OFFSET_ENTRY
from kafkatool.format.state.checkpoint import (
    EpochStart,
    PartitionOffset,
    write_leader_epochs,
    write_offset_checkpoint,
)
from kafkatool.format.state.producer_snapshot import write_snapshot
from kafkatool.format.time_index import ENTRY as TIME_ENTRY
from kafkatool.format.txn_index import AbortedTxn
from kafkatool.format.txn_index import write_entries as write_txn_index
from tests.cli import run
from tests.engine.partitions_to_verify import (
    OTHER_ID,
    SEGMENT,
    TOPIC_ID,
    batch,
    findings,
    kinds_of,
    state,
    write_healthy_log_dir,
    write_partition,
    write_segment,
)
from tests.logs import TIME
from tests.mutations import change, flip, flipped
from tests.places import FIXTURES

SIZE = len(batch(0))
F = FindingClass


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return write_healthy_log_dir(tmp_path / "logs", isr=[1])


@pytest.fixture
def partition(log_dir: Path) -> Path:
    return log_dir / "orders-0"


def only(found: list[Finding]) -> Finding:
    assert len(found) == 1, found
    return found[0]


def closed(partition: Path, extension: str) -> Path:
    """A file of the second of three segments."""
    return partition / segment_file(SEGMENT, extension)


def active(partition: Path, extension: str) -> Path:
    return partition / segment_file(2 * SEGMENT, extension)


# --- what is right ----------------------------------------------------------------------------------------


def test_nothing_is_wrong_with_a_healthy_directory(log_dir: Path) -> None:
    assert findings(log_dir, deep=True, least=Severity.NOTE) == []


# Not left so by a broker: records out of order, made by hand; and a swap that a broker was killed in.
EXCEPTIONS = {
    "odd/records": {F.BAD_RECORD},
    "leftovers/swap-3.9": {F.OVERLAP},
    "leftovers/swap-4.3": {F.OVERLAP},
}
CASES = sorted(str(path.relative_to(FIXTURES)) for path in FIXTURES.glob("*/*") if path.is_dir())


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_wrong_with_what_a_broker_left(case: str) -> None:
    path = FIXTURES / case
    paths = [path] if directory_target(str(path)) else [p for p in sorted(path.iterdir()) if p.is_dir()]
    paths = [p for p in paths if directory_target(str(p))]
    groups = [paths] if not case.startswith("replicas/") else [[p] for p in paths]
    for group in groups:
        assert set(kinds_of(findings(*group, deep=True))) == EXCEPTIONS.get(case, set()), case


def test_index_entries_for_groups_of_batches_are_as_they_should_be(partition: Path) -> None:
    entries = OFFSET_ENTRY.pack(5, 2 * SIZE) + OFFSET_ENTRY.pack(9, 6 * SIZE)
    closed(partition, ".index").write_bytes(entries)
    assert findings(partition) == []


def test_the_zeros_behind_the_entries_of_the_active_segment_are_as_they_should_be(partition: Path) -> None:
    os.truncate(active(partition, ".index"), 8 << 10)
    os.truncate(active(partition, ".timeindex"), 12 << 10)
    assert findings(partition) == []


def test_producers_that_expired_may_be_missing_in_a_snapshot(partition: Path) -> None:
    (partition / segment_file(SEGMENT, ".snapshot")).write_bytes(write_snapshot([]))
    assert findings(partition) == []


# --- batches ----------------------------------------------------------------------------------------------


def test_a_flipped_bit_is_named(partition: Path) -> None:
    flip(closed(partition, ".log"), 3 * SIZE + 200, 5)
    found = only(findings(partition))
    assert found.damage.kind is F.BIT_FLIP
    assert found.damage.severity is Severity.LOSS
    assert f"bit 5 of byte {3 * SIZE + 200}" in found.damage.message
    assert (found.damage.first_offset, found.damage.last_offset) == (SEGMENT + 3, SEGMENT + 3)
    assert found.below_recovery_point is True


def test_a_flipped_bit_in_a_length_is_named(partition: Path) -> None:
    flip(closed(partition, ".log"), 3 * SIZE + 10, 1)
    found = only(findings(partition))
    assert found.damage.kind is F.BIT_FLIP
    assert f"byte {3 * SIZE + 10}" in found.damage.message


def test_a_flipped_bit_is_mended_by_the_command_that_is_named(partition: Path) -> None:
    flip(closed(partition, ".log"), 3 * SIZE + 200, 5)
    assert only(findings(partition)).fix == f"kafkatool recover --mend-bits {partition}"


def test_another_replica_is_better_than_a_mended_bit(tmp_path: Path) -> None:
    log_dir = write_healthy_log_dir(tmp_path / "logs", isr=[1, 2])
    flip(closed(log_dir / "orders-0", ".log"), 3 * SIZE + 200, 5)
    assert only(findings(log_dir)).fix == Advice.SET_ASIDE(where=log_dir / "orders-0")


def test_a_flip_that_may_be_chance_is_not_one_to_mend(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    write_segment(directory, 0, [batch(0), batch(1, size=100_000), batch(2)], is_active=True)
    flip(directory / f"{0:020d}.log", 5000, 1)
    found = only([one for one in findings(directory) if one.damage.severity is Severity.LOSS])
    assert found.damage.kind is F.BIT_FLIP
    assert "or seems so by chance, with odds of 1 in 5" in found.damage.message
    assert found.fix == f"kafkatool recover --keep-after-damage <DIR> {directory}"


def test_a_magic_that_is_one_bit_off_is_one_to_mend(partition: Path) -> None:
    flip(closed(partition, ".log"), 4 * SIZE + 16, 2)
    found = only(findings(partition))
    assert found.damage.kind is F.BAD_MAGIC
    assert found.fix == f"kafkatool recover --mend-bits {partition}"


@pytest.mark.parametrize("edit", ["bits", "length", "zeros"])
def test_damage_at_the_front_of_a_segment_has_bounds(partition: Path, edit: str) -> None:
    """From the offset in its name to the next good batch."""

    def damage(data: bytearray) -> None:
        if edit == "zeros":
            data[:SIZE] = bytes(SIZE)
        elif edit == "length":
            data[8:12] = (7).to_bytes(4, "big")
        else:
            data[100:110] = bytes(10)

    change(closed(partition, ".log"), damage)
    found = only([one for one in findings(partition) if one.damage.severity is Severity.LOSS])
    damaged = found.damage
    assert (damaged.first_offset, damaged.last_offset, damaged.next_good_offset) == (
        SEGMENT,
        SEGMENT,
        SEGMENT + 1,
    )


def test_a_segment_without_a_good_batch_has_bounds(partition: Path) -> None:
    """From the offset in its name to where the next segment begins."""
    change(closed(partition, ".log"), lambda data: data.__setitem__(slice(None), b"\x55" * len(data)))
    losses = [one.damage for one in findings(partition) if one.damage.severity is Severity.LOSS]
    assert {(one.first_offset, one.last_offset) for one in losses} == {(SEGMENT, 2 * SEGMENT - 1)}


def test_damage_at_the_end_of_a_closed_segment_ends_where_the_next_one_begins(partition: Path) -> None:
    change(closed(partition, ".log"), lambda data: data.__setitem__(slice(-SIZE, None), b"\x55" * SIZE))
    losses = [one.damage for one in findings(partition) if one.damage.severity is Severity.LOSS]
    assert [(one.first_offset, one.last_offset) for one in losses] == [(2 * SEGMENT - 1, 2 * SEGMENT - 1)]


def test_damage_at_the_front_of_the_last_segment_is_open_to_the_end(partition: Path) -> None:
    change(active(partition, ".log"), lambda data: data.__setitem__(slice(None), b"\x55" * len(data)))
    losses = [one.damage for one in findings(partition) if one.damage.severity is Severity.LOSS]
    assert {(one.first_offset, one.last_offset) for one in losses} == {(2 * SEGMENT, None)}


def test_two_flipped_bits_are_a_bad_checksum(partition: Path) -> None:
    flip(active(partition, ".log"), 100, 5)
    flip(active(partition, ".log"), 150, 1)
    found = only(findings(partition))
    assert found.damage.kind is F.BAD_CRC
    assert found.below_recovery_point is False


def test_an_offset_that_is_too_high_is_blamed_on_its_own_batch(partition: Path) -> None:
    flip(closed(partition, ".log"), 4 * SIZE + 7, 6)
    found = only(findings(partition))
    assert (found.damage.kind, found.damage.position) == (F.BAD_OFFSET, 4 * SIZE)


def test_a_batch_below_its_segment_keeps_a_broker_from_starting(partition: Path) -> None:
    change(closed(partition, ".log"), lambda data: pack_into(">q", data, 0, 3))
    found = findings(partition)
    assert found[0].damage.kind is F.BAD_OFFSET
    assert found[0].damage.severity is Severity.NO_START


def test_a_batch_too_far_above_its_segment_keeps_a_broker_from_starting(partition: Path) -> None:
    flip(closed(partition, ".log"), 4 * SIZE + 3, 0)
    found = only(findings(partition))
    assert (found.damage.kind, found.damage.severity) == (F.BAD_OFFSET, Severity.NO_START)
    assert found.damage.position == 4 * SIZE


def test_a_torn_tail_is_found(partition: Path) -> None:
    log = active(partition, ".log")
    os.truncate(log, log.stat().st_size - 5)
    assert F.TORN_TAIL in kinds_of(findings(partition))


def test_zeros_in_the_middle_are_found(partition: Path) -> None:
    def edit(data: bytearray) -> None:
        data[4 * SIZE : 5 * SIZE] = bytes(SIZE)

    change(closed(partition, ".log"), edit)
    assert kinds_of(findings(partition)) == [F.ZERO_FILLED]


def test_the_zeros_of_a_preallocated_active_log_are_only_noted(partition: Path) -> None:
    os.truncate(active(partition, ".log"), 1 << 20)
    assert findings(partition) == []
    assert kinds_of(findings(partition, least=Severity.NOTE)) == [F.ZERO_FILLED]


def test_an_unknown_magic_is_found(partition: Path) -> None:
    change(closed(partition, ".log"), lambda data: data.__setitem__(4 * SIZE + 16, 7))
    assert kinds_of(findings(partition)) == [F.BAD_MAGIC]


def resealed(offset: int, **changes: int) -> bytes:
    """A batch whose checksum matches and whose header does not tell the truth."""
    raw = batch(offset)
    header: BatchHeader = read_header(raw)._replace(**changes)
    return seal(header, raw[61:])


@pytest.mark.parametrize("changes", [{"records_count": 2}, {"max_timestamp": TIME - 1}])
def test_records_that_do_not_fit_their_batch_are_found_with_deep(
    tmp_path: Path, changes: dict[str, int]
) -> None:
    write_segment(tmp_path, 0, [batch(0), resealed(1, **changes), batch(2)], is_active=True)
    log = tmp_path / segment_file(0, ".log")
    (tmp_path / segment_file(0, ".timeindex")).unlink()
    assert findings(log) == []
    assert kinds_of(findings(log, deep=True)) == [F.BAD_RECORD]


def test_a_leader_epoch_that_falls_is_found(partition: Path) -> None:
    flip(closed(partition, ".log"), 4 * SIZE + 15, 1)
    found = findings(partition)
    assert F.BAD_METADATA in kinds_of(found)
    assert "leader epoch 0 follows leader epoch 2" in found[0].damage.message


# --- indexes ----------------------------------------------------------------------------------------------


def offset_entry(path: Path, slot: int, relative_offset: int, position: int) -> None:
    change(path, lambda data: OFFSET_ENTRY.pack_into(data, 8 * slot, relative_offset, position))


def time_entry(path: Path, slot: int, time_ms: int, relative_offset: int) -> None:
    change(path, lambda data: TIME_ENTRY.pack_into(data, 12 * slot, time_ms, relative_offset))


def test_an_index_entry_into_the_middle_of_a_batch_is_found(partition: Path) -> None:
    offset_entry(closed(partition, ".index"), 1, 4, 4 * SIZE + 3)
    assert kinds_of(findings(partition)) == [F.BAD_INDEX]


def test_an_index_entry_that_leads_too_far_is_found(partition: Path) -> None:
    offset_entry(closed(partition, ".index"), 1, 3, 4 * SIZE)
    assert kinds_of(findings(partition)) == [F.BAD_INDEX]


def test_an_index_out_of_order_is_found(partition: Path) -> None:
    offset_entry(closed(partition, ".index"), 3, 1, 8 * SIZE)
    assert kinds_of(findings(partition)) == [F.BAD_INDEX]


def test_an_index_that_leads_behind_the_log_is_stale(partition: Path) -> None:
    offset_entry(closed(partition, ".index"), 4, 10, 1 << 20)
    assert kinds_of(findings(partition)) == [F.STALE_INDEX]


def test_an_index_cut_short_is_found(partition: Path) -> None:
    os.truncate(closed(partition, ".index"), 12)
    assert kinds_of(findings(partition)) == [F.BAD_INDEX]


def test_zeros_behind_the_entries_of_a_closed_segment_are_found(partition: Path) -> None:
    os.truncate(closed(partition, ".index"), 8 << 10)
    os.truncate(closed(partition, ".timeindex"), 12 << 10)
    assert kinds_of(findings(partition)) == [F.BAD_INDEX, F.BAD_INDEX]


def test_a_lying_index_of_the_active_segment_matters_more_after_a_clean_shutdown(log_dir: Path) -> None:
    index = active(log_dir / "orders-0", ".index")
    offset_entry(index, 1, 3, 4 * SIZE)
    assert only(findings(log_dir)).damage.severity is Severity.DEGRADED
    (log_dir / ".kafka_cleanshutdown").write_bytes(b"")
    assert only(findings(log_dir)).damage.severity is Severity.NO_START


def test_a_time_that_no_batch_has_is_found(partition: Path) -> None:
    time_entry(closed(partition, ".timeindex"), 1, TIME + 1000 * (SEGMENT + 5) - 1, 4)
    assert kinds_of(findings(partition)) == [F.BAD_INDEX]


def test_a_time_that_makes_a_search_start_too_late_is_found(partition: Path) -> None:
    time_entry(closed(partition, ".timeindex"), 2, TIME + 1000 * (SEGMENT + 4) + 1, 9)
    found = kinds_of(findings(partition))
    assert found
    assert set(found) == {F.BAD_INDEX}


def test_a_closed_segment_without_its_greatest_time_is_found(partition: Path) -> None:
    os.truncate(closed(partition, ".timeindex"), 24)
    assert kinds_of(findings(partition)) == [F.STALE_INDEX]
    os.truncate(closed(partition, ".timeindex"), 0)
    assert kinds_of(findings(partition)) == [F.STALE_INDEX]


@pytest.mark.parametrize("extension", [".index", ".timeindex"])
def test_a_missing_index_is_found(partition: Path, extension: str) -> None:
    closed(partition, extension).unlink()
    found = only(findings(partition))
    assert found.damage.kind is F.MISSING_FILE
    assert found.fix == f"kafkatool rebuild-index {partition}"


def test_indexes_without_their_log_are_found(partition: Path) -> None:
    (partition / segment_file(0, ".log")).unlink()
    found = only([one for one in findings(partition) if one.damage.kind is F.MISSING_FILE])
    assert found.fix == f"kafkatool recover {partition}"


# --- transactions and producers ---------------------------------------------------------------------------

LAST = 3 * SEGMENT - 1


@pytest.mark.parametrize(
    "entry",
    [
        AbortedTxn(0, 9, LAST - 1, LAST, LAST + 1),  # begins too late
        AbortedTxn(0, 8, LAST - 2, LAST, LAST + 1),  # another producer
        AbortedTxn(0, 9, LAST - 2, LAST, LAST + 2),  # an impossible last stable offset
        AbortedTxn(0, 9, LAST - 2, 5, 6),  # a marker of another segment
    ],
)
def test_an_aborted_transaction_that_the_log_does_not_have_is_found(
    partition: Path, entry: AbortedTxn
) -> None:
    active(partition, ".txnindex").write_bytes(write_txn_index([entry]))
    assert set(kinds_of(findings(partition))) == {F.BAD_INDEX}


def test_an_aborted_transaction_that_the_index_does_not_have_is_found(partition: Path) -> None:
    active(partition, ".txnindex").write_bytes(b"")
    assert kinds_of(findings(partition)) == [F.BAD_INDEX]
    active(partition, ".txnindex").unlink()
    assert kinds_of(findings(partition)) == [F.MISSING_FILE]


def test_a_transaction_index_cut_short_is_found(partition: Path) -> None:
    path = active(partition, ".txnindex")
    path.write_bytes(path.read_bytes() + b"\0\0\0")
    assert kinds_of(findings(partition)) == [F.BAD_INDEX]


def test_a_snapshot_with_a_bad_checksum_is_found(partition: Path) -> None:
    flip(closed(partition, ".snapshot"), 20)
    assert kinds_of(findings(partition)) == [F.BAD_SNAPSHOT]


@pytest.mark.parametrize(
    "changes",
    [
        {"last_sequence": 3},
        {"last_offset": 3},
        {"producer_epoch": 1},
        {"timestamp_ms": 5},
        {"current_txn_first_offset": 2},
        {"last_offset": SEGMENT},
        {"producer_id": 77},
    ],
)
def test_a_snapshot_that_contradicts_the_log_is_found(partition: Path, changes: dict[str, int]) -> None:
    wrong = state(SEGMENT - 1)._replace(**changes)
    path = closed(partition, ".snapshot")
    path.write_bytes(write_snapshot([wrong]))
    found = only(findings(partition))
    assert found.damage.kind is F.BAD_SNAPSHOT
    # A snapshot whose checksum is right is made anew by force alone; the others are none of its business.
    assert found.fix == f"kafkatool rebuild-index --force {path}"
    others = {file: file.read_bytes() for file in partition.glob("*.snapshot") if file != path}
    assert run(*found.fix.split()[1:], "--apply", "--offline").exit_code == 0
    assert findings(partition) == []
    assert {file: file.read_bytes() for file in others} == others


def test_a_garbled_snapshot_at_no_segments_base_is_a_starts_business(partition: Path) -> None:
    closed(partition, ".snapshot").rename(partition / segment_file(LAST - 2, ".snapshot"))
    flip(partition / segment_file(LAST - 2, ".snapshot"), 20)
    advice = {found.fix for found in findings(partition) if THROWN_AWAY in found.damage.message}
    assert advice == {f"kafkatool recover {partition}"}


def test_a_garbled_snapshot_at_the_start_of_the_log_is_a_starts_business(partition: Path) -> None:
    for file in partition.glob(f"{0:020d}.*"):
        file.unlink()
    flip(closed(partition, ".snapshot"), 20)
    found = only(findings(partition))
    assert (found.damage.kind, found.fix) == (F.BAD_SNAPSHOT, f"kafkatool recover {partition}")


# --- epochs, checkpoints, ids -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "severity"),
    [
        ([EpochStart(0, 0), EpochStart(1, 20)], Severity.DEGRADED),  # a later epoch than the batches have
        ([EpochStart(3, 0), EpochStart(2, 10)], Severity.DEGRADED),  # out of order
        ([], Severity.DEGRADED),
    ],
)
def test_leader_epochs_that_contradict_the_log_are_found(
    partition: Path, entries: list[EpochStart], severity: Severity
) -> None:
    (partition / "leader-epoch-checkpoint").write_bytes(write_leader_epochs(entries))
    found = only(findings(partition))
    assert (found.damage.kind, found.damage.severity) == (F.BAD_CHECKPOINT, severity)


def test_a_malformed_epoch_file_keeps_a_broker_from_starting(partition: Path) -> None:
    (partition / "leader-epoch-checkpoint").write_bytes(b"0\n2\n0 0\n")
    assert only(findings(partition)).damage.severity is Severity.NO_START
    (partition / "leader-epoch-checkpoint").unlink()
    found = only(findings(partition))
    assert (found.damage.kind, found.fix) == (F.MISSING_FILE, f"kafkatool recover {partition}")


@pytest.mark.parametrize(
    ("name", "severity"),
    [
        ("recovery-point-offset-checkpoint", Severity.DEGRADED),
        ("replication-offset-checkpoint", Severity.DEGRADED),
        ("log-start-offset-checkpoint", Severity.NO_START),
        ("cleaner-offset-checkpoint", Severity.DEGRADED),
    ],
)
def test_a_checkpoint_ahead_of_its_log_is_found(log_dir: Path, name: str, severity: Severity) -> None:
    (log_dir / name).write_bytes(write_offset_checkpoint([PartitionOffset("orders", 0, 1000)]))
    found = only(findings(log_dir))
    assert (found.damage.kind, found.damage.severity) == (F.BAD_CHECKPOINT, severity)
    assert kinds_of(findings(log_dir / "orders-0")) == [F.BAD_CHECKPOINT]


@pytest.mark.parametrize(
    ("text", "is_number"),
    [(b"0\n5\norders 0 3\n", False), (b"0\n1\norders 0 x\n", True), (b"0\n-1\n", True), (b"0\nx\n", False)],
)
@pytest.mark.parametrize("name", ["replication", "recovery-point", "log-start", "cleaner"])
def test_a_malformed_checkpoint_is_found(log_dir: Path, name: str, text: bytes, is_number: bool) -> None:
    # With a wrong number in it a broker starts, but one without high watermarks leads nothing.
    severity = Severity.DEGRADED if is_number and name != "replication" else Severity.NO_START
    (log_dir / f"{name}-offset-checkpoint").write_bytes(text)
    found = only(findings(log_dir))
    assert (found.damage.kind, found.damage.severity) == (F.BAD_CHECKPOINT, severity)


def test_a_topic_id_that_the_cluster_does_not_know_is_found(tmp_path: Path) -> None:
    log_dir = write_healthy_log_dir(tmp_path / "logs", isr=[1])
    metadata = log_dir / "orders-0" / "partition.metadata"
    metadata.write_bytes(b"version: 0\ntopic_id: " + OTHER_ID.encode())
    found = only(findings(log_dir))
    assert (found.damage.kind, found.damage.severity) == (F.BAD_METADATA, Severity.NO_START)
    metadata.write_bytes(b"version: 0\ntopic_id: no")
    assert kinds_of(findings(log_dir)) == [F.BAD_METADATA]


def test_a_malformed_meta_properties_is_found(log_dir: Path) -> None:
    (log_dir / "meta.properties").write_bytes(b"version=9\n")
    found = only(findings(log_dir))
    assert (found.damage.kind, found.damage.severity) == (F.BAD_METADATA, Severity.NO_START)


def test_an_unknown_directory_keeps_a_broker_from_starting(log_dir: Path) -> None:
    (log_dir / "lost+found").mkdir()
    found = only(findings(log_dir))
    assert (found.damage.kind, found.damage.severity) == (F.BAD_METADATA, Severity.NO_START)


def test_two_directories_of_one_broker_may_not_hold_the_same_partition(tmp_path: Path) -> None:
    one, two = write_healthy_log_dir(tmp_path / "a"), write_healthy_log_dir(tmp_path / "b")
    found = only(findings(one, two))
    assert (found.damage.kind, found.damage.severity) == (F.OVERLAP, Severity.NO_START)


def test_two_directories_of_one_broker_may_not_have_two_owners(tmp_path: Path) -> None:
    one, two = write_healthy_log_dir(tmp_path / "a"), write_healthy_log_dir(tmp_path / "b")
    (two / "meta.properties").write_bytes(b"version=1\nnode.id=2\ncluster.id=other\n")
    assert F.BAD_METADATA in kinds_of(findings(one, two))


# --- segments beside each other ---------------------------------------------------------------------------


def test_a_missing_segment_is_a_gap(partition: Path) -> None:
    for extension in (".log", ".index", ".timeindex", ".snapshot"):
        closed(partition, extension).unlink()
    gap = next(f for f in findings(partition) if f.damage.kind is F.GAP)
    assert (gap.damage.first_offset, gap.damage.last_offset) == (SEGMENT, 2 * SEGMENT - 1)


def test_a_gap_in_a_compacted_log_is_only_noted(log_dir: Path) -> None:
    partition = log_dir / "orders-0"
    for extension in (".log", ".index", ".timeindex", ".snapshot"):
        closed(partition, extension).unlink()
    line = [PartitionOffset("orders", 0, 5)]
    (log_dir / "cleaner-offset-checkpoint").write_bytes(write_offset_checkpoint(line))
    assert F.GAP not in kinds_of(findings(log_dir))
    assert F.GAP in kinds_of(findings(log_dir, least=Severity.NOTE))


def test_segments_that_hold_the_same_offsets_are_found(partition: Path) -> None:
    write_segment(partition, 0, [batch(offset) for offset in range(SEGMENT + 3)])
    found = [f for f in findings(partition) if f.damage.kind is F.OVERLAP]
    assert (only(found).damage.first_offset, only(found).damage.last_offset) == (SEGMENT, SEGMENT + 2)


def test_leftovers_are_told(partition: Path) -> None:
    for suffix in (".deleted", ".cleaned", ".swap"):
        (partition / f"{segment_file(SEGMENT, '.log')}{suffix}").write_bytes(batch(SEGMENT))
    told = [f.damage.severity for f in findings(partition, least=Severity.NOTE)]
    assert sorted(told) == [Severity.NOTE, Severity.NOTE, Severity.DEGRADED]


def test_an_index_that_a_cleaner_left_is_a_starts_business(partition: Path) -> None:
    (partition / f"{segment_file(SEGMENT, '.log')}.swap").write_bytes(batch(SEGMENT))
    index = partition / f"{segment_file(SEGMENT, '.index')}.swap"
    index.write_bytes(b"\0" * 7)
    found = only([finding for finding in findings(partition) if finding.file == str(index)])
    assert found.fix == f"kafkatool recover {partition}"


def test_a_snapshot_behind_the_end_is_noted(partition: Path) -> None:
    (partition / segment_file(500, ".snapshot")).write_bytes(write_snapshot([]))
    assert kinds_of(findings(partition, least=Severity.NOTE)) == [F.BAD_SNAPSHOT]


# --- advice -----------------------------------------------------------------------------------------------


def test_with_another_replica_in_sync_the_advice_is_to_fetch_again(tmp_path: Path) -> None:
    log_dir = write_healthy_log_dir(tmp_path / "logs", isr=[1, 2])
    flip(closed(log_dir / "orders-0", ".log"), 3 * SIZE + 200)
    found = only(findings(log_dir))
    assert found.replicas is not None
    assert (found.replicas.isr, found.replicas.leader, found.replicas.metadata_ms) == ((1, 2), 1, TIME)
    assert found.fix == Advice.SET_ASIDE(where=log_dir / "orders-0")
    assert only(findings(log_dir / "orders-0")).fix == found.fix


def test_without_another_replica_the_advice_is_to_recover(tmp_path: Path) -> None:
    log_dir = write_healthy_log_dir(tmp_path / "logs", isr=[1])
    flip(closed(log_dir / "orders-0", ".log"), 3 * SIZE + 200)
    assert str(only(findings(log_dir)).fix).startswith("kafkatool recover ")


def test_an_eligible_leader_replica_counts_as_another_copy(tmp_path: Path) -> None:
    """The brokers were stopped one by one: the last record of the metadata has nobody in sync."""
    case = FIXTURES / "replicas" / "epochs-4.3"
    log_dir = tmp_path / "logs"
    shutil.copytree(case / "node1" / "logs1", log_dir)
    shutil.copytree(case / "node3" / "logs1" / "__cluster_metadata-0", log_dir / "__cluster_metadata-0")
    flip(log_dir / "epochs-0" / segment_file(9, ".log"), 100)
    found = only(findings(log_dir))
    assert found.replicas is not None
    assert (found.replicas.isr, found.replicas.eligible, found.replicas.leader) == ((), (3,), -1)
    assert found.fix == Advice.SET_ASIDE(where=log_dir / "epochs-0")


def test_of_several_copies_of_the_metadata_the_newest_counts(tmp_path: Path) -> None:
    newer = write_healthy_log_dir(tmp_path / "newer", isr=[1, 2])
    older = write_healthy_log_dir(tmp_path / "older", isr=[1])
    log = newer / "__cluster_metadata-0" / segment_file(0, ".log")
    with log.open("ab") as file:
        file.write(write_batch([NewRecord(None, b"-", TIME)], base_offset=2, partition_leader_epoch=1))
    views = [read_partition(str(path / "__cluster_metadata-0"), []) for path in (newer, older)]
    for order in (views, views[::-1]):
        known = read_cluster_view(order, Guest()).replicas_of("orders", TOPIC_ID, 0)
        assert known is not None
        assert known.isr == (1, 2)


def test_after_a_clean_shutdown_nothing_is_looked_at(log_dir: Path) -> None:
    flip(active(log_dir / "orders-0", ".log"), 200)
    assert only(findings(log_dir)).below_recovery_point is False
    (log_dir / ".kafka_cleanshutdown").write_bytes(b"")
    assert only(findings(log_dir)).below_recovery_point is True


# --- what is walked ---------------------------------------------------------------------------------------


def test_directories_to_be_deleted_are_left_alone(tmp_path: Path) -> None:
    log_dir = write_healthy_log_dir(tmp_path / "logs")
    doomed = write_partition(log_dir / "gone-0.0123456789abcdef0123456789abcdef-delete")
    flip(closed(doomed, ".log"), 100)
    assert findings(log_dir) == []
    run = Verification(expand([str(log_dir)]).targets, VerifyRequest())
    size = sum(path.stat().st_size for path in doomed.glob("*.log"))
    assert (run.summary.deleted_partitions, run.summary.deleted_size) == (1, size)


def test_a_directory_to_be_deleted_is_walked_where_it_is_named_itself(tmp_path: Path) -> None:
    log_dir = write_healthy_log_dir(tmp_path / "logs")
    doomed = write_partition(log_dir / "gone-0.0123456789abcdef0123456789abcdef-delete")
    change(active(doomed, ".index"), lambda data: data.extend(bytes(4096)))  # preallocated, never trimmed
    assert findings(doomed) == []
    flip(closed(doomed, ".log"), 100)
    for paths in ((doomed,), (log_dir, doomed)):
        found = only(findings(*paths))
        assert (found.damage.kind, found.topic, found.partition) == (F.BIT_FLIP, "gone", 0)
        assert str(found.fix).startswith("nothing: ")


def test_a_metadata_snapshot_is_walked_like_a_log(log_dir: Path) -> None:
    raw = write_batch([NewRecord(None, b"x" * 40, TIME)], partition_leader_epoch=1)
    path = log_dir / "__cluster_metadata-0" / "00000000000000000002-0000000001.checkpoint"
    path.write_bytes(flipped(raw, 70))
    assert kinds_of(findings(log_dir)) == [F.BIT_FLIP]


def test_a_single_file_is_checked_with_what_stands_beside_it(partition: Path) -> None:
    offset_entry(closed(partition, ".index"), 1, 3, 4 * SIZE)
    assert kinds_of(findings(closed(partition, ".log"))) == [F.BAD_INDEX]
    assert kinds_of(findings(closed(partition, ".index"))) == [F.BAD_INDEX]
    flip(closed(partition, ".snapshot"), 20)
    assert kinds_of(findings(closed(partition, ".snapshot"))) == [F.BAD_SNAPSHOT]


def test_damaged_metadata_proves_nothing_about_topic_ids(log_dir: Path) -> None:
    flip(log_dir / "__cluster_metadata-0" / segment_file(0, ".log"), 80)
    assert {f.topic for f in findings(log_dir)} == {"__cluster_metadata"}


# --- what a follower leaves that truncated its log and was killed ---------------------------------


def left_over(partition: Path, *, from_slot: int) -> None:
    """Old entries behind those that count: those of a log that went further, in other batches, earlier."""
    for extension, entry in ((".index", OFFSET_ENTRY), (".timeindex", TIME_ENTRY)):
        index = active(partition, extension)
        entries = list(entry.iter_unpack(index.read_bytes()))[:from_slot]
        last = entries[-1]
        for number in range(1, 6):
            stale = (last[0] + 5 * number, last[1] + 3 * SIZE * number + 7)
            entries.append(stale if extension == ".index" else (TIME - 50 + number, last[1] + 5 * number))
        index.write_bytes(b"".join(entry.pack(*one) for one in entries) + bytes(240))


def test_entries_of_a_log_that_was_truncated_are_only_noted_where_a_start_makes_the_index_anew(
    log_dir: Path,
) -> None:
    count = active(log_dir / "orders-0", ".index").stat().st_size // 8
    assert count > 1
    left_over(log_dir / "orders-0", from_slot=count)
    assert findings(log_dir) == []
    assert F.STALE_INDEX in kinds_of(findings(log_dir, least=Severity.NOTE))
    (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    assert Severity.NO_START in [one.damage.severity for one in findings(log_dir)]


def test_a_wrong_entry_before_a_right_one_is_no_leftover(log_dir: Path) -> None:
    offset_entry(active(log_dir / "orders-0", ".index"), 1, 3, 4 * SIZE)
    assert only(findings(log_dir)).damage.severity is Severity.DEGRADED
