"""What `recover` says and does is what a broker does: copies of a killed broker's log, damaged by hand.

One topic, a partition for every kind of damage, all with the same log in them. A broker starts on one copy
of the log directory, `recover` is applied to another, and the two are compared file by file.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kafkatool.engine.fs import Disk
from kafkatool.engine.partitions import find_partitions
from kafkatool.engine.paths import LogDirTarget
from kafkatool.engine.plan import Applying, apply
from kafkatool.engine.recover import Recovered, Recovering, as_plan, plan_recover
from kafkatool.engine.source import Guest
from kafkatool.engine.start_checks import check_start
from kafkatool.format import offset_index, time_index
from kafkatool.format.batch import NewRecord, read_header, write_batch
from kafkatool.format.checkpoint import PartitionOffset, read_leader_epochs, write_offset_checkpoint
from kafkatool.format.names import segment_file
from kafkatool.format.offset_index import OffsetEntry
from kafkatool.format.producer_snapshot import read_snapshot
from kafkatool.format.txn_index import AbortedTxn, write_entries
from tests.kafka import peers
from tests.kafka.broker import Broker, BrokerFailedError
from tests.kafka.librdkafka import Record

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("recover")]

TOPIC = "damaged"
INTERVAL = 300
GUEST = Guest(cache_keep=True)
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"


class Killed(NamedTuple):
    """One partition of the killed broker, to be damaged."""

    path: Path
    bases: list[int]

    def file(self, number: int, extension: str) -> Path:
        """A file of the segment with this number, from either end."""
        return self.path / segment_file(self.bases[number], extension)

    def batches(self, number: int) -> list[tuple[int, int]]:
        """Position and size of every batch of a segment."""
        data, position, found = self.file(number, ".log").read_bytes(), 0, []
        while position < len(data):
            size = read_header(data, position).size
            found.append((position, size))
            position += size
        return found


def edit(path: Path, change: Callable[[bytearray], None]) -> None:
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)


def flip(path: Path, position: int) -> None:
    def change(data: bytearray) -> None:
        data[position] ^= 0x10

    edit(path, change)


def put(path: Path, position: int, new: bytes) -> None:
    def change(data: bytearray) -> None:
        data[position : position + len(new)] = new

    edit(path, change)


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


# --- the damages: what a broker survives --------------------------------------------------------------


def nothing(log: Killed) -> None:
    """As it was killed."""


def cut_in_a_header(log: Killed) -> None:
    cut(log.file(-1, ".log"), log.batches(-1)[-1][0] + 10)


def cut_in_a_body(log: Killed) -> None:
    cut(log.file(-1, ".log"), log.batches(-1)[-1][0] + 70)


def zeros_behind(log: Killed) -> None:
    edit(log.file(-1, ".log"), lambda data: data.extend(bytes(500)))


def zeroed_tail(log: Killed) -> None:
    position, size = log.batches(-1)[-1]
    put(log.file(-1, ".log"), position + 5, bytes(size - 5))


def bit_above_the_recovery_point(log: Killed) -> None:
    flip(log.file(3, ".log"), log.batches(3)[1][0] + 100)


def bit_below_the_recovery_point(log: Killed) -> None:
    flip(log.file(0, ".log"), log.batches(0)[1][0] + 100)


def length_above_the_recovery_point(log: Killed) -> None:
    put(log.file(3, ".log"), log.batches(3)[1][0] + 8, (7).to_bytes(4, "big"))


def missing_offset_index_below(log: Killed) -> None:
    log.file(1, ".index").unlink()


def missing_time_index_below(log: Killed) -> None:
    log.file(1, ".timeindex").unlink()


def all_indexes_missing(log: Killed) -> None:
    for path in log.path.glob("*index"):
        path.unlink()


def short_indexes(log: Killed) -> None:
    for number in (1, 3):
        cut(log.file(number, ".index"), 3)
        cut(log.file(number, ".timeindex"), 13)


def lying_index_above(log: Killed) -> None:
    lies = offset_index.write_entries([OffsetEntry(1, 77), OffsetEntry(2, 1 << 20)])
    log.file(3, ".index").write_bytes(lies)
    log.file(-1, ".index").write_bytes(lies)


def lying_index_below(log: Killed) -> None:
    log.file(1, ".index").write_bytes(offset_index.write_entries([OffsetEntry(2, 7)]))


def complete_swap(log: Killed) -> None:
    for extension in (".log", ".index", ".timeindex"):
        path = log.file(1, extension)
        shutil.copy(path, f"{path}.swap")


def swap_of_indexes_only(log: Killed) -> None:
    for extension in (".index", ".timeindex"):
        path = log.file(1, extension)
        path.rename(f"{path}.swap")


def swap_beside_cleaned(log: Killed) -> None:
    for extension in (".log", ".index", ".timeindex"):
        shutil.copy(log.file(1, extension), f"{log.file(1, extension)}.cleaned")
        shutil.copy(log.file(2, extension), f"{log.file(2, extension)}.swap")


def deleted_files(log: Killed) -> None:
    for path in list(log.path.glob(f"{log.bases[1]:020d}.*")):
        shutil.copy(path, f"{path}.deleted")


def wrong_transaction_index(log: Killed) -> None:
    wrong = AbortedTxn(0, 7, 0, log.bases[1] - 1, log.bases[1])
    log.file(1, ".txnindex").write_bytes(write_entries([wrong]))


def garbled_snapshots(log: Killed) -> None:
    for path in log.path.glob("*.snapshot"):
        flip(path, path.stat().st_size - 1)


def no_snapshots(log: Killed) -> None:
    for path in log.path.glob("*.snapshot"):
        path.unlink()


def no_leader_epochs(log: Killed) -> None:
    (log.path / "leader-epoch-checkpoint").unlink()


def empty_leader_epochs(log: Killed) -> None:
    (log.path / "leader-epoch-checkpoint").write_bytes(b"")


def orphaned_index(log: Killed) -> None:
    (log.path / segment_file(99_999, ".index")).write_bytes(bytes(8))


def last_offset_far_above(log: Killed) -> None:
    position, _size = log.batches(-1)[-1]
    put(log.file(-1, ".log"), position, (1 << 33).to_bytes(8, "big"))


def offsets_that_do_not_rise(log: Killed) -> None:
    """Every batch of a segment at its first offset: the second index entry does not lie above the first."""
    for position, _size in log.batches(3):
        put(log.file(3, ".log"), position, log.bases[3].to_bytes(8, "big"))


def offsets_that_do_not_rise_behind_an_entry_at_the_base(log: Killed) -> None:
    """As before, but the first index entry is for the base offset itself: a batch of one record."""
    entries = 0
    unindexed = 0
    for position, size in log.batches(3):
        put(log.file(3, ".log"), position, log.bases[3].to_bytes(8, "big"))
        if unindexed > INTERVAL:
            entries, unindexed = entries + 1, 0
            if entries == 1:
                put(log.file(3, ".log"), position, single_record(size, log.bases[3]))
        unindexed += size


def single_record(size: int, offset: int) -> bytes:
    """A batch of one record that is exactly this large."""
    bare = len(write_batch([NewRecord(None, b"", 0)]))
    for padding in range(size - bare - 3, size - bare + 1):
        batch = write_batch(
            [NewRecord(None, b"x" * padding, 0)], base_offset=offset, partition_leader_epoch=0
        )
        if len(batch) == size:
            return batch
    raise AssertionError("no such batch")


def no_recovery_point(log: Killed) -> None:
    """Its line is left out of the checkpoint."""


def a_later_log_start(log: Killed) -> None:
    """The log-start checkpoint lies inside the second segment."""


SURVIVED = (
    nothing,
    cut_in_a_header,
    cut_in_a_body,
    zeros_behind,
    zeroed_tail,
    bit_above_the_recovery_point,
    bit_below_the_recovery_point,
    length_above_the_recovery_point,
    missing_offset_index_below,
    missing_time_index_below,
    all_indexes_missing,
    short_indexes,
    lying_index_above,
    lying_index_below,
    complete_swap,
    swap_of_indexes_only,
    swap_beside_cleaned,
    deleted_files,
    wrong_transaction_index,
    garbled_snapshots,
    no_snapshots,
    no_leader_epochs,
    empty_leader_epochs,
    orphaned_index,
    last_offset_far_above,
    offsets_that_do_not_rise,
    offsets_that_do_not_rise_behind_an_entry_at_the_base,
    no_recovery_point,
    a_later_log_start,
)


# The broker leaves the entries it made before it gave up behind the end of the index, where it does not look.
STALE = {
    offsets_that_do_not_rise.__name__,
    offsets_that_do_not_rise_behind_an_entry_at_the_base.__name__,
}


# --- and what it does not -----------------------------------------------------------------------------


def offset_below_the_base(log_dir: Path, log: Killed) -> None:
    put(log.file(-1, ".log"), log.batches(-1)[1][0], bytes(8))


def malformed_leader_epochs(log_dir: Path, log: Killed) -> None:
    (log.path / "leader-epoch-checkpoint").write_text("0\n1\n0 0 0\n")


def recovery_points_with_a_wrong_count(log_dir: Path, log: Killed) -> None:
    (log_dir / RECOVERY_POINTS).write_text(f"0\n5\n{TOPIC} 0 0\n")


REFUSED = (
    offset_below_the_base,
    pytest.param(malformed_leader_epochs, marks=pytest.mark.soak),
    pytest.param(recovery_points_with_a_wrong_count, marks=pytest.mark.soak),
)


# --- the broker ---------------------------------------------------------------------------------------


def fill(broker: Broker) -> None:
    client = broker.client

    def steps(count: int) -> list[list[Record]]:
        return [[Record(b"k%d" % n, b"%d " % at * 30) for n in range(2)] for at in range(count)]

    config = {"internal.segment.bytes": "1500", "index.interval.bytes": str(INTERVAL)}
    client.create_topic(TOPIC, config, partitions=len(SURVIVED))
    quick = {"linger_ms": 5}
    client.produce_steps(TOPIC, steps(12), **quick)
    client.transaction(TOPIC, steps(6), transactional_id="a", commit=False, **quick)
    client.produce_steps(TOPIC, steps(5), enable_idempotence=False, **quick)
    client.transaction(TOPIC, steps(5), transactional_id="b", commit=True, **quick)
    client.transaction(TOPIC, steps(8), transactional_id="a", commit=False, **quick)
    client.produce_steps(TOPIC, steps(9), **quick)


def spread(log_dir: Path) -> list[Killed]:
    """Give every partition the log of the first one."""
    first = log_dir / f"{TOPIC}-0"
    bases = sorted(int(path.name[:20]) for path in first.glob("*.log"))
    assert len(bases) >= 6
    found = []
    for number in range(len(SURVIVED)):
        path = log_dir / f"{TOPIC}-{number}"
        if number:
            for old in path.iterdir():
                if old.name != "partition.metadata":
                    old.unlink()
            for new in first.iterdir():
                if new.name != "partition.metadata":
                    shutil.copy2(new, path / new.name)
        found.append(Killed(path, bases))
    return found


def write_checkpoints(log_dir: Path, logs: list[Killed]) -> None:
    points, starts = [], []
    for number, (log, damage) in enumerate(zip(logs, SURVIVED, strict=True)):
        if damage is not no_recovery_point:
            points.append(PartitionOffset(TOPIC, number, log.bases[2] + 1))
        if damage is a_later_log_start:
            starts.append(PartitionOffset(TOPIC, number, log.bases[1] + 2))
    (log_dir / RECOVERY_POINTS).write_bytes(write_offset_checkpoint(points))
    (log_dir / LOG_STARTS).write_bytes(write_offset_checkpoint(starts))


@pytest.fixture(scope="module")
def killed() -> Iterator[Broker]:
    """A broker that was killed, its log spread over all partitions; the log directory is not damaged yet."""
    peers.require_kafka(peers.NEWEST)
    with Broker(peers.NEWEST, {"log.initial.task.delay.ms": "60000"}) as broker:
        fill(broker)
        broker.kill()
        write_checkpoints(broker.log_dir, spread(broker.log_dir))
        shutil.copytree(broker.log_dir, broker.root / "pristine", symlinks=True)
        yield broker


def restore(broker: Broker) -> list[Killed]:
    shutil.rmtree(broker.log_dir)
    shutil.copytree(broker.root / "pristine", broker.log_dir, symlinks=True)
    first = broker.log_dir / f"{TOPIC}-0"
    bases = sorted(int(path.name[:20]) for path in first.glob("*.log"))
    return [Killed(broker.log_dir / f"{TOPIC}-{number}", bases) for number in range(len(SURVIVED))]


def recover(log_dir: Path, *, is_applied: bool) -> dict[str, Recovered]:
    """What `recover` makes of every partition of the topic."""
    (home,) = find_partitions([LogDirTarget(str(log_dir))], GUEST).homes
    checks = check_start(home.log_dir, GUEST)
    now_ms = max(path.stat().st_mtime_ns for path in log_dir.rglob("*.log")) // 1_000_000
    found = {}
    for named in home.partitions:
        partition = named.partition
        if partition.topic == TOPIC and partition.partition is not None:
            key = (TOPIC, partition.partition)
            points, starts = checks.recovery_points, checks.log_starts
            how = Recovering(now_ms, points.get(key, 0), starts.get(key, 0), INTERVAL)
            found[partition.directory] = plan_recover(partition, how, GUEST)
    if checks.refusals:
        return dict.fromkeys(found, Recovered("", refusal=checks.refusals[0]))
    if is_applied:
        apply(as_plan(str(log_dir), list(found.values())), Disk(), Applying(now_ms, offline=True))
    return found


def facts(directory: Path) -> dict[str, object]:
    """What a partition holds; zeros behind index entries, new epochs without data and leftovers aside."""
    found: dict[str, object] = {}
    for path in sorted(directory.iterdir()):
        data = path.read_bytes()
        if path.suffix == ".index":
            found[path.name] = list(offset_index.read_entries(data[: offset_index.entries_end(data)]))
        elif path.suffix == ".timeindex":
            found[path.name] = list(time_index.read_entries(data[: time_index.entries_end(data)]))
        elif path.suffix == ".snapshot":
            found[path.name] = sorted(read_snapshot(data))
        elif path.suffix in (".log", ".txnindex"):
            found[path.name] = data
        elif path.name == "leader-epoch-checkpoint":
            entries = read_leader_epochs(data)
            found[path.name] = [entry for entry in entries if entry.epoch == 0]
        elif ".kafkatool-" not in path.name and path.suffix not in (".deleted", ".metadata", ".tmp"):
            found[path.name] = data
    return found


@pytest.fixture(scope="module")
def outcomes(killed: Broker) -> dict[str, tuple[dict[str, object], dict[str, object]]]:
    """By damage: what the broker left, and what we left."""
    logs = restore(killed)
    for log, damage in zip(logs, SURVIVED, strict=True):
        damage(log)
    ours = killed.root / "ours"
    shutil.copytree(killed.log_dir, ours, symlinks=True)
    recover(ours, is_applied=True)
    killed.start()
    killed.kill()
    # Before another broker starts on it.
    return {
        damage.__name__: (facts(log.path), facts(ours / log.path.name))
        for log, damage in zip(logs, SURVIVED, strict=True)
    }


@pytest.mark.parametrize("damage", [damage.__name__ for damage in SURVIVED])
def test_what_recover_leaves_is_what_a_broker_leaves(
    damage: str, outcomes: dict[str, tuple[dict[str, object], dict[str, object]]]
) -> None:
    theirs, ours = outcomes[damage]
    assert sorted(ours) == sorted(theirs)
    for name, content in theirs.items():
        if damage not in STALE or not name.endswith("index"):
            assert ours[name] == content, name


@pytest.mark.parametrize("damage", sorted(STALE))
def test_a_segment_that_a_broker_gave_up_has_stale_entries_behind_its_indexes_and_ours_has_none(
    damage: str, outcomes: dict[str, tuple[dict[str, object], dict[str, object]]]
) -> None:
    theirs, ours = outcomes[damage]
    changed = {name for name, content in theirs.items() if ours[name] != content}
    (stem,) = {name.partition(".")[0] for name in changed}
    assert changed <= {f"{stem}.index", f"{stem}.timeindex"}
    assert all(ours[name] == [] for name in changed)


def test_a_broker_starts_on_what_recover_left_without_a_warning_and_serves_it(
    killed: Broker, outcomes: dict[str, tuple[dict[str, object], dict[str, object]]]
) -> None:
    shutil.rmtree(killed.log_dir)
    shutil.copytree(killed.root / "ours", killed.log_dir, symlinks=True)
    said = killed.log_file.stat().st_size
    killed.start()
    try:
        with killed.log_file.open("rb") as log:
            log.seek(said)
            lines = log.read().decode().splitlines()
        serious = [line for line in lines if f"{TOPIC}-" in line and (" WARN " in line or " ERROR " in line)]
        assert serious == []
        whole = SURVIVED.index(nothing)
        # Uncommitted readers see every record, committed ones those of no aborted transaction.
        everything = killed.client.consume(TOPIC, 2 * 45, partition=whole, isolation_level="read_uncommitted")
        committed = killed.client.consume(TOPIC, 2 * 31, partition=whole, isolation_level="read_committed")
        assert (len(everything), len(committed)) == (90, 62)
    finally:
        killed.kill()


@pytest.mark.parametrize("damage", REFUSED)
def test_where_a_broker_does_not_start_recover_had_said_so(
    damage: Callable[[Path, Killed], None], killed: Broker
) -> None:
    log = restore(killed)[1]
    damage(killed.log_dir, log)
    assert recover(killed.log_dir, is_applied=False)[log.path.name].refusal
    with pytest.raises(BrokerFailedError):
        killed.start()
