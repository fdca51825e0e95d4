"""What `doctor` says of a broker's directories is what a broker then does.

Every damage that stops a start, or that a start passes over in silence. A broker with two log directories,
the metadata log in the first of them, stopped cleanly; some cases take the mark of that away.
Other modules ask doctor too before they start a broker: test_start_parity.py, test_recover_parity.py.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kafkatool.engine.doctor.brokers import find_brokers
from kafkatool.engine.doctor.examination import DoctorRequest, examine
from kafkatool.engine.files.lock import CLEAN_MARKER
from kafkatool.engine.files.source import Guest
from kafkatool.format.names import METADATA_PARTITION, segment_file
from kafkatool.format.state.checkpoint import PartitionOffset, read_offset_checkpoint, write_offset_checkpoint
from kafkatool.format.state.producer_snapshot import write_snapshot
from tests.kafka import peers
from tests.kafka.broker import Broker, BrokerFailedError
from tests.kafka.diagnoses import Diagnosis, diagnose
from tests.kafka.librdkafka import Record, wait_until
from tests.kafka.recover_damages import Killed, cut, cut_in_a_body
from tests.mutations import flip, put

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("recover")]

TOPIC = "doctored"
PARTITIONS = 12
RECORDS = 10
RECOVERY_POINTS, LOG_STARTS = "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"
OTHER_ID = "version: 0\ntopic_id: XHpw3kXRRGqmVILEOZWN3Q"
SOAK = pytest.mark.soak
VERSIONS = pytest.mark.parametrize(
    "stopped", [peers.NEWEST, pytest.param(peers.OLDEST, marks=SOAK)], indirect=True, scope="module"
)


class Stopped(NamedTuple):
    """A broker that was stopped cleanly, and what doctor said while it ran."""

    broker: Broker
    while_running: Diagnosis

    @property
    def configuration(self) -> str:
        return str(self.broker.root / "server.properties")

    @property
    def metadata(self) -> Path:
        return self.broker.log_dir / METADATA_PARTITION

    def restore(self) -> None:
        for directory in self.broker.log_dirs:
            shutil.rmtree(directory, ignore_errors=True)
            shutil.copytree(self.broker.root / f"pristine-{directory.name}", directory)

    def logs(self, number: int) -> list[Killed]:
        """The partitions in one of the directories."""
        return [Killed(path, [0]) for path in sorted(self.broker.log_dirs[number].glob(f"{TOPIC}-*"))]

    def unmark(self) -> None:
        for directory in self.broker.log_dirs:
            (directory / CLEAN_MARKER).unlink(missing_ok=True)

    def diagnose(self) -> Diagnosis:
        return diagnose(self.configuration)


@pytest.fixture(scope="module")
def stopped(request: pytest.FixtureRequest) -> Iterator[Stopped]:
    peers.require_kafka(request.param)
    settings = {"log.index.size.max.bytes": "12000", "log.index.interval.bytes": "300"}
    with Broker(request.param, settings, log_dirs=2) as broker:
        broker.client.create_topic(TOPIC, {}, partitions=PARTITIONS)
        steps = [[Record(b"k", b"v" * 150)] for _ in range(RECORDS)]
        for partition in range(PARTITIONS):
            broker.client.produce_steps(TOPIC, steps, partition=partition, linger_ms=0)
        found = diagnose(str(broker.root / "server.properties"))
        broker.stop()
        for directory in broker.log_dirs:
            shutil.copytree(directory, broker.root / f"pristine-{directory.name}")
        yield Stopped(broker, found)


def served(broker: Broker) -> dict[str, int]:
    """How many offsets of each partition a broker has."""
    marks = broker.client.watermarks(TOPIC, range(PARTITIONS))
    return {f"{TOPIC}-{number}": high - low for number, (low, high) in marks.items()}


@VERSIONS
def test_while_a_broker_runs_doctor_says_so_and_names_it(stopped: Stopped) -> None:
    assert stopped.while_running.verdict == "running"
    assert isinstance(stopped.while_running.row["pid"], int)


# --- what a start passes over in silence ------------------------------------------------------------------


def no_topic_id(log: Killed) -> None:
    (log.path / "partition.metadata").unlink()


def another_topic_id(log: Killed) -> None:
    (log.path / "partition.metadata").write_text(OTHER_ID)


def a_damaged_newest_snapshot(log: Killed) -> None:
    newest = max(log.path.glob("*.snapshot"))
    flip(newest, -1, 4)


def a_torn_tail(log: Killed) -> None:
    cut_in_a_body(log)


def a_bit_in_the_middle(log: Killed) -> None:
    flip(log.file(0, ".log"), log.batches(0)[4][0] + 100, 4)


def a_log_start_above_the_end(log: Killed) -> None:
    checkpoint = log.path.parent / LOG_STARTS
    topic, _, number = log.path.name.rpartition("-")
    entries = read_offset_checkpoint(checkpoint.read_bytes())
    checkpoint.write_bytes(write_offset_checkpoint([*entries, PartitionOffset(topic, int(number), 1000)]))


def cut_below_the_last_index_entry(log: Killed) -> None:
    cut(log.file(0, ".log"), log.batches(0)[2][0])


def an_index_that_lies(log: Killed) -> None:
    put(log.file(0, ".index"), log.file(0, ".index").stat().st_size - 4, (77).to_bytes(4, "big"))


def nothing(log: Killed) -> None:
    """As it was."""


SCANNED = (
    nothing,
    no_topic_id,
    a_damaged_newest_snapshot,
    a_torn_tail,
    a_bit_in_the_middle,
    a_log_start_above_the_end,
)
BELIEVED = (
    nothing,
    another_topic_id,
    a_torn_tail,
    cut_below_the_last_index_entry,
    an_index_that_lies,
    a_bit_in_the_middle,
)


def no_election(stopped: Stopped) -> None:
    (stopped.metadata / "quorum-state").unlink()


def empty_recovery_points(stopped: Stopped) -> None:
    (stopped.broker.log_dir / RECOVERY_POINTS).write_bytes(b"")


@VERSIONS
def test_what_a_start_loses_in_silence_doctor_had_counted_partition_by_partition(stopped: Stopped) -> None:
    """The first directory without its mark, so that it is scanned; the second with it."""
    stopped.restore()
    (stopped.broker.log_dir / CLEAN_MARKER).unlink()
    for logs, damages in ((stopped.logs(0), SCANNED), (stopped.logs(1), BELIEVED)):
        for log, damage in zip(logs, damages, strict=True):
            damage(log)
    no_election(stopped)
    empty_recovery_points(stopped)
    told = lost_by_partition(stopped.configuration)
    found = stopped.diagnose()
    flipped = stopped.logs(1)[BELIEVED.index(a_bit_in_the_middle)].path.name
    assert found.verdict == "loses"
    assert found.lost_offsets == sum(told.values())
    stopped.broker.start()
    try:
        left = served(stopped.broker)
    finally:
        stopped.broker.kill()
    gone = {name: RECORDS - count for name, count in left.items() if count < RECORDS}
    assert len(gone) == 8
    # A flipped bit that no start looks at keeps its offset, and its record cannot be read.
    assert told == {**gone, flipped: 1}


def all_served(stopped: Stopped) -> dict[str, int]:
    """How many offsets of each partition a consumer gets, from a broker that is killed afterwards."""
    stopped.broker.start()
    try:
        found = stopped.broker.client.consume_all(TOPIC, range(PARTITIONS))
    finally:
        stopped.broker.kill()
    return {f"{TOPIC}-{number}": len({one.offset for one in records}) for number, records in found.items()}


@SOAK
@VERSIONS
def test_a_partition_that_is_missing_is_lost_and_doctor_had_said_so(stopped: Stopped) -> None:
    stopped.restore()
    gone = stopped.logs(0)[0].path
    shutil.rmtree(gone)
    found = stopped.diagnose()
    assert (found.verdict, found.lost_offsets) == ("loses", RECORDS)
    assert found.lost_partitions == {gone.name}
    assert {name for name, count in all_served(stopped).items() if count < RECORDS} == {gone.name}


@SOAK
@VERSIONS
def test_the_only_controller_without_its_metadata_log_is_an_empty_cluster_as_doctor_had_said(
    stopped: Stopped,
) -> None:
    stopped.restore()
    shutil.rmtree(stopped.metadata)
    found = stopped.diagnose()
    assert found.verdict == "loses"
    assert found.lost_partitions >= {f"{TOPIC}-{number}" for number in range(PARTITIONS)}
    stopped.broker.start()
    try:
        assert stopped.broker.client.placement(TOPIC) is None
        for directory in stopped.broker.log_dirs:
            wait_until(lambda home=directory: not list(home.glob(f"{TOPIC}-?")), "strays")  # type: ignore[misc]
    finally:
        stopped.broker.kill()


@SOAK
@VERSIONS
def test_offsets_that_go_backwards_and_a_torn_tail_under_the_mark_are_losses(stopped: Stopped) -> None:
    """An offset that nobody has any more, and one that the broker gives out a second time."""
    stopped.restore()
    backwards, torn = stopped.logs(0)[:2]
    put(backwards.file(0, ".log"), backwards.batches(0)[RECORDS - 2][0], (0).to_bytes(8, "big"))
    log = torn.file(0, ".log")
    cut(log, log.stat().st_size - 10)
    found = stopped.diagnose()
    assert found.verdict == "loses"
    assert found.lost_partitions == {backwards.path.name, torn.path.name}
    assert found.lost_offsets == 2
    left = all_served(stopped)
    assert (left[backwards.path.name], left[torn.path.name]) == (RECORDS - 1, RECORDS - 1)


@SOAK
@VERSIONS
def test_a_lost_owner_comes_back_with_its_old_id_and_every_record(stopped: Stopped) -> None:
    stopped.restore()
    owner = stopped.broker.log_dirs[1] / "meta.properties"
    before = owner.read_text()
    owner.unlink()
    found = stopped.diagnose()
    assert found.verdict == "no_start"
    [advice] = [row["fix"] for row in found.findings if row["file"] == str(owner)]
    subprocess.run(["bash", "-c", str(advice)], check=True)
    kept = [line for line in before.splitlines() if not line.startswith("#")]
    assert sorted(owner.read_text().splitlines()) == sorted(kept)
    assert set(all_served(stopped).values()) == {RECORDS}


def lost_by_partition(configuration: str) -> dict[str, int]:
    guest = Guest(cache_keep=True)
    (broker,) = find_brokers([configuration], [], guest)
    losses = examine(broker, DoctorRequest(now_ms=0, guest=guest)).chart.losses
    return {loss.partition: loss.offsets for loss in losses}


@VERSIONS
def test_a_metadata_log_cut_before_a_topic_makes_all_its_partitions_stray_and_doctor_had_said_so(
    stopped: Stopped,
) -> None:
    stopped.restore()
    (log,) = stopped.metadata.glob("*.log")
    cut(log, log.read_bytes().index(TOPIC.encode()))
    found = stopped.diagnose()
    assert (found.verdict, found.lost_offsets) == ("loses", PARTITIONS * RECORDS + metadata_loss(found))
    stopped.broker.start()
    try:
        wait_until(lambda: len(strays(stopped.broker)) == PARTITIONS, "strays")
    finally:
        stopped.broker.kill()
    assert {name.partition(".")[0] for name in strays(stopped.broker)} | {METADATA_PARTITION} == {
        *found.lost_partitions
    }


def strays(broker: Broker) -> list[str]:
    return [path.name for one in broker.log_dirs for path in one.glob(f"{TOPIC}-*-stray")]


def metadata_loss(found: Diagnosis) -> int:
    (row,) = [row for row in found.findings if METADATA_PARTITION in str(row["file"])]
    first, last = row["first_offset"], row["last_offset"]
    assert isinstance(first, int)
    return last + 1 - first if isinstance(last, int) else 1


# --- what stops it ----------------------------------------------------------------------------------------


def recovery_points_with_a_wrong_count(stopped: Stopped) -> None:
    (stopped.broker.log_dir / RECOVERY_POINTS).write_text(f"0\n5\n{TOPIC} 0 0\n")


def recovery_points_of_another_version(stopped: Stopped) -> None:
    (stopped.broker.log_dir / RECOVERY_POINTS).write_text("7\n0\n")


def malformed_leader_epochs(stopped: Stopped) -> None:
    (stopped.logs(0)[0].path / "leader-epoch-checkpoint").write_text("0\n1\n0 0 0\n")


def garbled_election(stopped: Stopped) -> None:
    (stopped.metadata / "quorum-state").write_bytes(b"garbage")


def an_offset_outside_its_segment(stopped: Stopped) -> None:
    stopped.unmark()
    log = stopped.logs(1)[0]
    path = log.file(0, ".log")
    path.rename(log.path / segment_file(100, ".log"))
    for extension in (".index", ".timeindex"):
        log.file(0, extension).rename(log.path / segment_file(100, extension))


def an_index_that_leads_to_garbage(stopped: Stopped) -> None:
    """Under a mark of a clean shutdown: the length at that byte is none."""
    log = stopped.logs(1)[0]
    position, _size = log.batches(0)[-1]
    put(log.file(0, ".log"), position + 8, (3).to_bytes(4, "big"))


def a_batch_that_looks_like_an_old_message(stopped: Stopped) -> None:
    """Under a mark of a clean shutdown, where the index leads: magic 1, and a codec that is none."""
    log = stopped.logs(1)[0]
    position = int.from_bytes(log.file(0, ".index").read_bytes()[-4:], "big")
    put(log.file(0, ".log"), position + 16, b"\1\5")


def a_length_behind_the_newest_snapshot(stopped: Stopped) -> None:
    """The producers' snapshot of the log end is gone: the log is replayed from another one, and breaks."""
    log = stopped.logs(1)[0]
    for path in log.path.glob("*.snapshot"):
        path.unlink()
    (log.path / segment_file(1, ".snapshot")).write_bytes(write_snapshot([]))
    put(log.file(0, ".log"), log.batches(0)[3][0] + 8, (3).to_bytes(4, "big"))


def a_directory_that_is_not_there(stopped: Stopped) -> None:
    shutil.rmtree(stopped.broker.log_dirs[1])


def a_directory_that_is_empty(stopped: Stopped) -> None:
    a_directory_that_is_not_there(stopped)
    stopped.broker.log_dirs[1].mkdir()


def a_directory_that_is_nobodys(stopped: Stopped) -> None:
    (stopped.broker.log_dirs[1] / "lost+found").mkdir()


REFUSED = (
    recovery_points_with_a_wrong_count,
    malformed_leader_epochs,
    garbled_election,
    an_offset_outside_its_segment,
    *(
        pytest.param(damage, marks=SOAK)
        for damage in (
            recovery_points_of_another_version,
            an_index_that_leads_to_garbage,
            a_length_behind_the_newest_snapshot,
            a_directory_that_is_not_there,
            a_directory_that_is_empty,
            a_directory_that_is_nobodys,
        )
    ),
)


@VERSIONS
def test_only_from_4_0_on_a_start_stumbles_over_a_batch_that_looks_like_an_old_message(
    stopped: Stopped,
) -> None:
    stopped.restore()
    a_batch_that_looks_like_an_old_message(stopped)
    starts = stopped.broker.version.startswith("3.")
    assert (stopped.diagnose().verdict != "no_start") == starts
    if starts:
        stopped.broker.start()
        stopped.broker.kill()
        return
    with pytest.raises(BrokerFailedError, match="Unknown compression type id"):
        stopped.broker.start()


@VERSIONS
@pytest.mark.parametrize("damage", REFUSED)
def test_where_a_broker_does_not_start_doctor_had_said_so_and_what_to_do(
    damage: Callable[[Stopped], None], stopped: Stopped
) -> None:
    stopped.restore()
    damage(stopped)
    found = stopped.diagnose()
    assert found.verdict == "no_start", found.findings
    assert found.findings[0]["severity"] == "no_start"
    assert found.findings[0]["fix"]
    with pytest.raises(BrokerFailedError):
        stopped.broker.start()


@VERSIONS
@pytest.mark.parametrize(
    "damage",
    [
        recovery_points_with_a_wrong_count,
        *(pytest.param(damage, marks=SOAK) for damage in (malformed_leader_epochs, garbled_election)),
    ],
)
def test_what_doctor_advises_lets_the_broker_start_again(
    damage: Callable[[Stopped], None], stopped: Stopped
) -> None:
    stopped.restore()
    damage(stopped)
    advice = str(stopped.diagnose().findings[0]["fix"])
    assert advice.startswith("mv ")
    subprocess.run(advice, shell=True, check=True)
    assert stopped.diagnose().verdict == "starts"
    stopped.broker.start()
    try:
        assert served(stopped.broker) == {f"{TOPIC}-{number}": RECORDS for number in range(PARTITIONS)}
    finally:
        stopped.broker.kill()


@VERSIONS
def test_a_broker_that_starts_and_serves_nothing_was_told_of_as_such(stopped: Stopped) -> None:
    """With one directory left in order, it leads what it comes to before the first partition of the other."""
    stopped.restore()
    for directory in stopped.broker.log_dirs:
        (directory / "replication-offset-checkpoint").write_text(f"0\n1\n{TOPIC} 0 x\n")
    assert stopped.diagnose().verdict == "serves_nothing"
    stopped.broker.start()
    try:
        for log in (stopped.logs(0)[0], stopped.logs(1)[0]):
            number = int(log.path.name.rpartition("-")[2])
            with pytest.raises((RuntimeError, TimeoutError)):
                stopped.broker.client.produce(
                    TOPIC, [Record(b"k", b"v")], partition=number, message_timeout_ms=3000
                )
    finally:
        stopped.broker.kill()
