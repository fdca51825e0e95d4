"""What `recover` makes of a metadata log is what a node makes of it.

The node is started as one of three controllers of which the others are not there: it loads its metadata log,
and nobody appends to it, so that what it left can be compared.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkatool.engine.directory.log_dir import read_partition
from kafkatool.engine.files.source import Guest
from kafkatool.engine.recover.planning import plan_recover
from kafkatool.engine.recover.result import StartFacts
from kafkatool.format.names import METADATA_PARTITION, segment_file
from tests.cli import run
from tests.kafka import peers
from tests.kafka.broker import Broker, BrokerFailedError
from tests.kafka.librdkafka import Record, wait_until
from tests.kafka.recovered_files import read_directory
from tests.mutations import flip

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("recover")]

SOAK = pytest.mark.soak


class Metadata:
    """The metadata log of a killed node, to be damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.logs = sorted(path.glob("*.log"))
        self.snapshots = sorted(path.glob("*.checkpoint"))


def leftovers_and_a_torn_tail(log: Metadata) -> None:
    newest = log.snapshots[-1]
    shutil.copy(newest, f"{newest}.part")
    shutil.copy(newest, f"{newest}.deleted")
    shutil.copy(newest, log.path / "00000000000000009999-0000000001.checkpoint.part")
    shutil.copy(log.logs[0], f"{log.logs[0]}.deleted")
    for path in log.path.glob("*.index"):
        path.unlink()
    log.logs[-1].write_bytes(log.logs[-1].read_bytes()[:-10])


def a_log_that_ends_below_the_newest_snapshot(log: Metadata) -> None:
    for path in log.logs[1:]:
        for extension in (".log", ".index", ".timeindex"):
            path.with_suffix(extension).unlink()
    log.logs[0].write_bytes(log.logs[0].read_bytes()[: log.logs[0].stat().st_size // 2])


def a_log_that_begins_later(log: Metadata) -> None:
    for extension in (".log", ".index", ".timeindex"):
        log.logs[0].with_suffix(extension).unlink()


def a_bit_in_the_first_log(log: Metadata) -> None:
    flip(log.logs[0], log.logs[0].stat().st_size // 2)


def no_log_at_all(log: Metadata) -> None:
    for path in log.path.glob("*.[lit]*[gx]"):
        path.unlink()


def no_snapshots(log: Metadata) -> None:
    for path in log.snapshots:
        path.unlink()


def a_snapshot_of_a_later_epoch(log: Metadata) -> None:
    shutil.copy(log.snapshots[0], log.path / f"{log.snapshots[0].name[:20]}-0000000099.checkpoint")


SURVIVED = (
    leftovers_and_a_torn_tail,
    a_log_that_ends_below_the_newest_snapshot,
    *(
        pytest.param(damage, marks=SOAK)
        for damage in (
            a_log_that_begins_later,
            a_bit_in_the_first_log,
            no_log_at_all,
            no_snapshots,
            a_snapshot_of_a_later_epoch,
        )
    ),
)


def a_later_log_without_snapshots(log: Metadata) -> None:
    no_snapshots(log)
    a_log_that_begins_later(log)


def a_snapshot_that_is_none(log: Metadata) -> None:
    (log.path / "odd.checkpoint").write_bytes(b"")


def a_garbled_newest_snapshot(log: Metadata) -> None:
    log.snapshots[-1].write_bytes(b"garbage" * 20)


def a_bit_in_the_newest_snapshot(log: Metadata) -> None:
    flip(log.snapshots[-1], 300)


def malformed_epochs(log: Metadata) -> None:
    (log.path / "leader-epoch-checkpoint").write_text("0\n1\n0 0 0\n")


def the_id_of_another_topic(log: Metadata) -> None:
    (log.path / "partition.metadata").write_text("version: 0\ntopic_id: XHpw3kXRRGqmVILEOZWN3Q")


REFUSED = (
    a_later_log_without_snapshots,
    a_snapshot_that_is_none,
    a_garbled_newest_snapshot,
    a_bit_in_the_newest_snapshot,
    malformed_epochs,
    the_id_of_another_topic,
)


@pytest.fixture(
    scope="module", params=[peers.NEWEST, pytest.param(peers.OLDEST, marks=SOAK)], ids=lambda version: version
)
def killed(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A killed node with several segments and snapshots of metadata."""
    version = request.param
    peers.require_kafka(version)
    size = "8192"
    small = {"internal.metadata.log.segment.bytes": size}
    if version.startswith("3."):
        small = {"metadata.log.segment.bytes": size, "metadata.log.segment.min.bytes": size}
    with Broker(version, {**small, "metadata.log.max.record.bytes.between.snapshots": "3000"}) as broker:
        directory = broker.log_dir / METADATA_PARTITION
        broker.client.create_topic("first", {}, partitions=50)
        wait_until(lambda: len(Metadata(directory).snapshots) > 0, "a snapshot")
        broker.client.create_topic("second", {}, partitions=50)
        wait_until(lambda: len(Metadata(directory).snapshots) > 1, "another snapshot")
        wait_until(lambda: len(Metadata(directory).logs) > 1, "another segment")
        broker.client.produce("first", [Record(b"k", b"v")])
        broker.kill()
        shutil.copytree(directory, broker.root / "pristine")
        voters = broker.properties["controller.quorum.voters"]
        broker.properties["controller.quorum.voters"] = f"{voters},2@127.0.0.1:1,3@127.0.0.1:2"
        broker.started_words = b"Completed transition to"  # of the election, which comes behind the loading
        yield broker


def restore(broker: Broker) -> Metadata:
    directory = broker.log_dir / METADATA_PARTITION
    shutil.rmtree(directory)
    shutil.copytree(broker.root / "pristine", directory)
    return Metadata(directory)


def load(broker: Broker) -> bool:
    """Let a node load its metadata log and kill it; whether it came through."""
    try:
        broker.start()
    except BrokerFailedError:
        return False
    broker.kill()
    return True


@pytest.mark.parametrize("damage", SURVIVED)
def test_what_recover_leaves_of_a_metadata_log_is_what_a_node_leaves(
    damage: Callable[[Metadata], None], killed: Broker, tmp_path: Path
) -> None:
    log = restore(killed)
    damage(log)
    ours = tmp_path / METADATA_PARTITION
    shutil.copytree(log.path, ours)
    assert run("recover", "--apply", "--offline", str(ours)).exit_code in (0, 4)
    assert load(killed)
    left, here = read_directory(log.path), read_directory(ours)
    for one in (left, here):
        del one.facts["quorum-state"]
    # A node makes the indexes of an empty segment when it appends to it.
    if len(left.facts) < len(here.facts):
        (empty,) = [name for name, content in here.facts.items() if content == b""]
        for extension in (".index", ".timeindex"):
            assert here.facts.pop(segment_file(int(empty[:20]), extension)) == []
    assert here.facts == left.facts
    assert not (left.marked - set(left.facts)) & set(here.facts)
    assert not left.temporary


@pytest.mark.soak
@pytest.mark.parametrize("damage", REFUSED)
def test_where_a_node_does_not_come_through_recover_had_said_so(
    damage: Callable[[Metadata], None], killed: Broker
) -> None:
    log = restore(killed)
    damage(log)
    found = plan_recover(read_partition(str(log.path), []), StartFacts(0), Guest())
    assert found.refusal is not None
    assert not load(killed)
