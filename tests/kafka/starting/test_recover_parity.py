"""What `recover` says and does is what a broker does: copies of a killed broker's log, damaged by hand.

One topic, a partition for every kind of damage, all with the same log in them. A broker starts on one copy
of the log directory, `recover` is applied to another, and the two are compared file by file and, as consumers
see them, record by record.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kafkatool.engine.directory.selection import Selection
from kafkatool.engine.directory.targets import LogDirTarget
from kafkatool.engine.doctor.brokers import find_brokers
from kafkatool.engine.doctor.examination import DoctorRequest, examine
from kafkatool.engine.doctor.symptoms import Loss
from kafkatool.engine.files.disk import Disk
from kafkatool.engine.plan.applying import apply
from kafkatool.engine.plan.steps import Applying
from kafkatool.engine.recover.planning import as_plan, plan_recover
from kafkatool.engine.recover.result import Recovered, StartFacts
from kafkatool.engine.recover.start_checks import check_start
from kafkatool.format.state.checkpoint import PartitionOffset, read_leader_epochs, write_offset_checkpoint
from tests.kafka import peers
from tests.kafka.broker import Broker, BrokerFailedError
from tests.kafka.librdkafka import Placed, Record
from tests.kafka.making.logs import small_segments
from tests.kafka.recover_damages import (
    INTERVAL,
    LOG_STARTS,
    RECOVERY_POINTS,
    REFUSED,
    STALE,
    SURVIVED,
    THROWN_AWAY,
    TOPIC,
    Killed,
    a_later_log_start,
    bit_below_the_recovery_point,
    lying_index_below,
    no_recovery_point,
    nothing,
    offset_below_the_base,
    unknown_magic_above_the_recovery_point,
    unknown_magic_in_the_active_segment,
    zeroed_tail,
)
from tests.kafka.recovered_files import Directory, log_end, read_directory
from tests.logs import GUEST

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("recover")]

SOAK = pytest.mark.soak
OLDEST_IN_SOAK = pytest.mark.parametrize(
    "killed", [peers.NEWEST, pytest.param(peers.OLDEST, marks=SOAK)], indirect=True, scope="module"
)
DAMAGES = [damage.__name__ for damage in SURVIVED]
# Damage that no start repairs: what a consumer gets of it depends on how it asks.
UNREADABLE = (
    bit_below_the_recovery_point,
    lying_index_below,
    unknown_magic_above_the_recovery_point,
    unknown_magic_in_the_active_segment,
)
READABLE = [number for number, damage in enumerate(SURVIVED) if damage not in UNREADABLE]
INDEX_BYTES = 12_000  # there are many of them, and they are copied often
LEVELS = ("read_uncommitted", "read_committed")


# --- the broker ---------------------------------------------------------------------------------------


def fill(broker: Broker) -> None:
    client = broker.client

    def steps(count: int) -> list[list[Record]]:
        return [[Record(b"k%d" % n, b"%d " % at * 30) for n in range(2)] for at in range(count)]

    config = {
        **small_segments(broker.version, 1500),
        "index.interval.bytes": str(INTERVAL),
        "segment.index.bytes": str(INDEX_BYTES),
    }
    client.create_topic(TOPIC, config, partitions=len(SURVIVED))
    quick = {"linger_ms": 5}
    client.produce_steps(TOPIC, steps(12), **quick)
    client.transaction(TOPIC, steps(6), transactional_id="a", commit=False, **quick)
    broker.restart()  # and with it another leader epoch
    client.produce_steps(TOPIC, steps(5), enable_idempotence=False, **quick)
    client.transaction(TOPIC, steps(5), transactional_id="b", commit=True, **quick)
    client.transaction(TOPIC, steps(8), transactional_id="a", commit=False, **quick)
    client.produce_steps(TOPIC, steps(9), **quick)


def spread(log_dir: Path) -> list[Killed]:
    """Give every partition the log of the first one."""
    first = log_dir / f"{TOPIC}-0"
    bases = sorted(int(path.name[:20]) for path in first.glob("*.log"))
    assert len(bases) >= 6
    assert len(read_leader_epochs((first / "leader-epoch-checkpoint").read_bytes())) >= 2
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
        if damage in THROWN_AWAY:
            starts.append(PartitionOffset(TOPIC, number, 1000))
    (log_dir / RECOVERY_POINTS).write_bytes(write_offset_checkpoint(points))
    (log_dir / LOG_STARTS).write_bytes(write_offset_checkpoint(starts))


@pytest.fixture(scope="module")
def killed(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker that was killed, its log spread over all partitions; the log directory is not damaged yet."""
    peers.require_kafka(request.param)
    # Nothing happens behind our back: no checkpoint is written, nothing marked as deleted is unlinked.
    calm = {"log.initial.task.delay.ms": "3600000", "log.segment.delete.delay.ms": "3600000"}
    with Broker(request.param, calm) as broker:
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
    (home,) = Selection([LogDirTarget(str(log_dir))], GUEST).homes
    checks = check_start(home.log_dir, GUEST)
    now_ms = max(path.stat().st_mtime_ns for path in log_dir.rglob("*.log")) // 1_000_000
    found = {}
    for named in home.partitions:
        partition = named.partition
        if partition.topic == TOPIC and partition.partition is not None:
            key = (TOPIC, partition.partition)
            points, starts = checks.recovery_points, checks.log_starts
            how = StartFacts(now_ms, points.get(key, 0), starts.get(key, 0), INTERVAL, INDEX_BYTES)
            found[partition.directory] = plan_recover(partition, how, GUEST)
    if checks.refusals:
        return dict.fromkeys(found, Recovered("", refusal=checks.refusals[0]))
    if is_applied:
        apply(as_plan(str(log_dir), list(found.values())), Disk(), Applying(now_ms, offline=True))
    return found


# --- what is compared ---------------------------------------------------------------------------------


Consumed = dict[str, dict[int, list[Placed]]]


def consume(broker: Broker) -> Consumed:
    return {
        level: broker.client.consume_all(TOPIC, READABLE, isolation_level=level, check_crcs=True)
        for level in LEVELS
    }


class Outcomes(NamedTuple):
    """By damage: the directory before, what the broker left, what we left; and what consumers of it read.

    Then: how many offsets `doctor` had said each would lose, and how many each has lost.
    """

    before: dict[str, set[str]]
    theirs: dict[str, Directory]
    ours: dict[str, Directory]
    consumed: Consumed
    foretold: dict[str, Loss]
    lost: dict[str, int]


@pytest.fixture(scope="module")
def outcomes(killed: Broker) -> Outcomes:
    logs = restore(killed)
    for log, damage in zip(logs, SURVIVED, strict=True):
        damage(log)
    places = dict(zip(DAMAGES, logs, strict=True))
    before = {name: {path.name for path in log.path.iterdir()} for name, log in places.items()}
    ours = killed.root / "ours"
    shutil.copytree(killed.log_dir, ours, symlinks=True)
    foretold = losses(ours)
    recover(ours, is_applied=True)
    end = log_end(logs[SURVIVED.index(nothing)].path)
    killed.start()
    consumed = consume(killed)
    killed.kill()
    # Before another broker starts on it.
    return Outcomes(
        before,
        {name: read_directory(log.path) for name, log in places.items()},
        {name: read_directory(ours / log.path.name) for name, log in places.items()},
        consumed,
        {name: foretold[log.path.name] for name, log in places.items() if log.path.name in foretold},
        {name: lost_of(log, end) for name, log in places.items()},
    )


def losses(log_dir: Path) -> dict[str, Loss]:
    """What `doctor` says that each partition loses."""
    (broker,) = find_brokers([], [LogDirTarget(str(log_dir))], GUEST)
    found = examine(broker, DoctorRequest(now_ms=0, guest=GUEST))
    return {loss.partition: loss for loss in found.chart.losses}


def lost_of(log: Killed, end: int) -> int:
    """How many offsets are gone that were there; a log that begins anew behind its end has lost them all."""
    first = min(int(path.name[:20]) for path in log.path.glob("*.log"))
    return end - log.bases[0] if first > end else max(0, end - log_end(log.path))


@OLDEST_IN_SOAK
@pytest.mark.parametrize("damage", DAMAGES)
def test_what_recover_leaves_is_what_a_broker_leaves(damage: str, outcomes: Outcomes) -> None:
    theirs, ours = outcomes.theirs[damage].facts, outcomes.ours[damage].facts
    assert sorted(ours) == sorted(theirs)
    for name, content in theirs.items():
        if damage not in STALE or not name.endswith("index"):
            assert ours[name] == content, name


@OLDEST_IN_SOAK
@pytest.mark.parametrize("damage", sorted(STALE))
def test_a_segment_that_a_broker_gave_up_has_stale_entries_behind_its_indexes_and_ours_has_none(
    damage: str, outcomes: Outcomes
) -> None:
    theirs, ours = outcomes.theirs[damage].facts, outcomes.ours[damage].facts
    changed = {name for name, content in theirs.items() if ours[name] != content}
    (stem,) = {name.partition(".")[0] for name in changed}
    assert changed <= {f"{stem}.index", f"{stem}.timeindex"}
    assert all(ours[name] == [] for name in changed)


LEFT_UNREAD = {
    one.__name__
    for one in (
        bit_below_the_recovery_point,
        unknown_magic_above_the_recovery_point,
        unknown_magic_in_the_active_segment,
    )
}


@OLDEST_IN_SOAK
def test_doctor_had_said_how_many_offsets_each_partition_would_lose(outcomes: Outcomes) -> None:
    for damage, lost in outcomes.lost.items():
        told = outcomes.foretold.get(damage)
        if damage == zeroed_tail.__name__:  # as room that was reserved: nothing tells that records were there
            assert told is None
            continue
        if damage in LEFT_UNREAD:  # the offsets are there, and no consumer gets their records
            assert (lost, told is not None) == (0, True), damage
            continue
        assert (lost > 0) == (told is not None), damage
        if told is not None:
            assert told.offsets == lost or (told.is_at_least and told.offsets < lost), damage
    exact = [told for told in outcomes.foretold.values() if not told.is_at_least]
    assert len(exact) > 3


@OLDEST_IN_SOAK
def test_what_a_broker_marks_as_deleted_is_gone_here_too_and_kept(outcomes: Outcomes) -> None:
    marked = 0
    for damage, theirs in outcomes.theirs.items():
        ours = outcomes.ours[damage]
        for name in theirs.marked:
            assert (name in ours.facts) == (name in theirs.facts)
            # An index that is the same again is nothing to keep, nor a snapshot that came and went.
            assert name in ours.kept or name in ours.facts or name not in outcomes.before[damage]
        marked += len(theirs.marked)
    assert marked > 10


@OLDEST_IN_SOAK
def test_nothing_but_zeros_is_behind_the_entries_of_an_index_that_is_in_use(outcomes: Outcomes) -> None:
    for damage in set(DAMAGES) - STALE:
        for padding in (outcomes.theirs[damage].padding, outcomes.ours[damage].padding):
            assert not any(data.strip(b"\0") for data in padding.values()), damage
    # It is what a broker reserves in the last segment for entries to come; the others it trims, as we do.
    for directory in (outcomes.theirs[nothing.__name__], outcomes.ours[nothing.__name__]):
        last = max(name for name in directory.facts if name.endswith(".log"))
        assert {name[:20] for name, data in directory.padding.items() if data} <= {last[:20]}


@OLDEST_IN_SOAK
def test_a_kill_leaves_no_unfinished_file_but_that_of_the_epochs(outcomes: Outcomes) -> None:
    left = {name for theirs in outcomes.theirs.values() for name in theirs.temporary}
    assert left <= {"leader-epoch-checkpoint.tmp"}
    assert not any(ours.temporary for ours in outcomes.ours.values())


@OLDEST_IN_SOAK
def test_a_broker_starts_on_what_recover_left_without_a_warning_and_serves_the_same_records(
    killed: Broker, outcomes: Outcomes
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
        consumed = consume(killed)
    finally:
        killed.kill()
    assert consumed == outcomes.consumed
    # Uncommitted readers see every record, committed ones those of no aborted transaction.
    whole = SURVIVED.index(nothing)
    assert [len(consumed[level][whole]) for level in LEVELS] == [2 * 45, 2 * 31]


@pytest.mark.parametrize(
    ("killed", "damage"),
    [
        pytest.param(
            version, damage, marks=() if (version, damage) == (peers.NEWEST, offset_below_the_base) else SOAK
        )
        for version in (peers.NEWEST, peers.OLDEST)
        for damage in REFUSED
    ],
    indirect=["killed"],
    scope="module",
)
def test_where_a_broker_does_not_start_recover_had_said_so(
    killed: Broker, damage: Callable[[Path, Killed], None]
) -> None:
    log = restore(killed)[1]
    damage(killed.log_dir, log)
    assert recover(killed.log_dir, is_applied=False)[log.path.name].refusal
    with pytest.raises(BrokerFailedError):
        killed.start()
