"""Where a broker stops at its start, leaves a log directory out, or gets over it: we say the same before.

A broker with two log directories, the metadata log in the first of them.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli import run
from tests.kafka import peers
from tests.kafka.broker import GOES_OFFLINE, Broker, BrokerFailedError
from tests.kafka.diagnoses import diagnose
from tests.kafka.librdkafka import Record, wait_until

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("recover")]

TOPIC = "t"
ID = "0123456789abcdef0123456789abcdef"
SOAK = pytest.mark.soak
STARTS, REFUSES, OFFLINE, LEADS_NOTHING = "starts", "refuses", "offline", "leads nothing"
VERDICTS = {STARTS: "starts", REFUSES: "no_start", OFFLINE: "partly", LEADS_NOTHING: "serves_nothing"}


class Dirs(NamedTuple):
    """The two directories, and in each of them a partition by name."""

    first: Path
    second: Path

    def partition(self, directory: Path) -> Path:
        return min(directory.glob(f"{TOPIC}-*"))


Damage = Callable[[Dirs], object]


def content(number: int, name: str, data: bytes) -> Damage:
    return lambda dirs: (dirs[number] / name).write_bytes(data)


def changed(number: int, name: str, old: str, new: str) -> Damage:
    def change(dirs: Dirs) -> None:
        path = dirs[number] / name
        text = re.sub(old, new, path.read_text(), flags=re.MULTILINE)
        assert text != path.read_text()
        path.write_text(text)

    return change


def missing(number: int, name: str) -> Damage:
    return lambda dirs: (dirs[number] / name).unlink()


def duplicate(dirs: Dirs) -> None:
    one = dirs.partition(dirs.first)
    shutil.copytree(one, dirs.second / one.name)


def duplicate_copy(dirs: Dirs) -> None:
    for directory in dirs:
        shutil.copytree(dirs.partition(dirs.first), directory / f"{TOPIC}-0.{ID}-future")


def deleted(name: str, data: bytes | None) -> Damage:
    """A partition in the second directory that waits to be deleted, with such a file in it."""

    def make(dirs: Dirs) -> None:
        path = dirs.second / f"{TOPIC}-0.{ID}-delete"
        shutil.copytree(dirs.partition(dirs.second), path)
        if data is not None:
            (path / name).write_bytes(data)

    return make


def in_partition(number: int, name: str, data: bytes) -> Damage:
    return lambda dirs: (dirs.partition(dirs[number]) / name).write_bytes(data)


SHAPE, NUMBER = b"0\n5\nt 0 3\n", b"0\n1\nt 0 x\n"
EPOCHS, TOPIC_ID, OWNER = "leader-epoch-checkpoint", "partition.metadata", "meta.properties"
QUORUM = "__cluster_metadata-0/quorum-state"
CASES: dict[str, tuple[Damage, str]] = {
    "nothing": (lambda dirs: None, STARTS),
    "the same partition twice": (duplicate, REFUSES),
    "two copies on their way": (duplicate_copy, REFUSES),
    "a directory that is nobody's": (lambda dirs: (dirs.second / "lost+found").mkdir(), REFUSES),
    "epochs without shape": (in_partition(1, EPOCHS, b"0\n1\n0 0 0\n"), OFFLINE),
    "epochs without shape beside the metadata": (in_partition(0, EPOCHS, b"0\n1\n0 0 0\n"), REFUSES),
    "epochs with a wrong number": (in_partition(1, EPOCHS, b"0\n1\n0 x\n"), REFUSES),
    "epochs with a count below 0": (in_partition(1, EPOCHS, b"0\n-1\n"), REFUSES),
    "a topic id without shape": (in_partition(1, TOPIC_ID, b"garbage\n"), OFFLINE),
    "a topic id that is none": (in_partition(1, TOPIC_ID, b"version: 0\ntopic_id: abc"), REFUSES),
    "to be deleted": (deleted("", None), STARTS),
    "to be deleted, epochs without shape": (deleted(EPOCHS, b"0\n1\n0 0 0\n"), OFFLINE),
    "to be deleted, epochs with a wrong number": (deleted(EPOCHS, b"0\n1\n0 x\n"), REFUSES),
    "to be deleted, a leftover without an offset": (deleted("x.cleaned", b""), REFUSES),
    "to be deleted, a topic id that is none": (deleted(TOPIC_ID, b"version: 0\ntopic_id: abc"), REFUSES),
    "no owner": (missing(1, OWNER), REFUSES),
    "an empty owner": (content(1, OWNER, b""), REFUSES),
    "an owner of an unknown version": (changed(1, OWNER, "^version=1", "version=7"), OFFLINE),
    "an owner of an unknown version beside the metadata": (
        changed(0, OWNER, "^version=1", "version=7"),
        REFUSES,
    ),
    "an owner without a cluster": (changed(1, OWNER, "^cluster.id=.*\n", ""), OFFLINE),
    "another cluster": (changed(1, OWNER, "^cluster.id=.*", "cluster.id=AAAAAAAAAAAAAAAAAAAAAA"), REFUSES),
    "another node": (changed(0, OWNER, "^node.id=.*", "node.id=9"), REFUSES),
    "a directory id that is none": (changed(1, OWNER, "^directory.id=.*", "directory.id=x"), OFFLINE),
    "a reserved directory id": (
        changed(1, OWNER, "^directory.id=.*", "directory.id=AAAAAAAAAAAAAAAAAAAAYw"),
        REFUSES,
    ),
    "the same directory id": (lambda dirs: shutil.copy(dirs.first / OWNER, dirs.second / OWNER), REFUSES),
    "no election": (missing(0, QUORUM), STARTS),
    "an empty election": (content(0, QUORUM, b""), REFUSES),
    "an election without an epoch": (changed(0, QUORUM, '"leaderEpoch":[0-9]+,', ""), REFUSES),
    "an election of an unknown version": (
        changed(0, QUORUM, '"data_version":.', '"data_version":9'),
        REFUSES,
    ),
    "an election of a strange version": (
        changed(0, QUORUM, '"data_version":.', '"data_version":"x"'),
        STARTS,
    ),
    "an election with more behind it": (changed(0, QUORUM, "}$", "} x"), STARTS),
    "no beginning": (missing(0, "bootstrap.checkpoint"), STARTS),
    "an empty beginning": (content(0, "bootstrap.checkpoint", b""), REFUSES),
    **{
        f"{name} without shape {'beside the metadata' if number == 0 else ''}": (
            content(number, f"{name}-offset-checkpoint", SHAPE),
            (REFUSES, OFFLINE)[number],
        )
        for name in ("recovery-point", "log-start", "replication", "cleaner")
        for number in (0, 1)
    },
    **{
        f"{name} with a wrong number": (
            content(1, f"{name}-offset-checkpoint", NUMBER),
            LEADS_NOTHING if name == "replication" else STARTS,
        )
        for name in ("recovery-point", "log-start", "replication", "cleaner")
    },
    "recovery-point with a count below 0": (
        content(1, "recovery-point-offset-checkpoint", b"0\n-1\n"),
        STARTS,
    ),
}
ALWAYS = ("the same partition twice", "epochs without shape")


@pytest.fixture(
    scope="module", params=[peers.NEWEST, pytest.param(peers.OLDEST, marks=SOAK)], ids=lambda version: version
)
def stopped(request: pytest.FixtureRequest) -> Iterator[Broker]:
    peers.require_kafka(request.param)
    settings = {"log.index.size.max.bytes": "1200", "log.segment.delete.delay.ms": "1000"}
    with Broker(request.param, settings, log_dirs=2) as broker:
        broker.client.create_topic(TOPIC, {}, partitions=4)
        for partition in range(4):
            broker.client.produce(TOPIC, [Record(b"k", b"v")], partition=partition)
        broker.kill()
        for directory in broker.log_dirs:
            shutil.copytree(directory, broker.root / f"pristine-{directory.name}")
        yield broker


def restore(broker: Broker) -> Dirs:
    for directory in broker.log_dirs:
        shutil.rmtree(directory)
        shutil.copytree(broker.root / f"pristine-{directory.name}", directory)
    return Dirs(*broker.log_dirs)


def configuration(broker: Broker) -> str:
    return str(broker.root / "server.properties")


def led(broker: Broker) -> set[str]:
    """The partitions that have a leader."""
    known = broker.client.leaders(TOPIC)
    return {f"{TOPIC}-{number}" for number, leader in known.items() if leader >= 0}


def outcome(broker: Broker, dirs: Dirs, patience: float) -> str:
    """How far the broker comes; so many seconds are given to a directory to go offline.

    With a directory out, it may fail to lead partitions of the other one too: its own words are asked then.
    """
    placed = [{path.name for path in directory.glob(f"{TOPIC}-[0-9]")} for directory in dirs]
    said = broker.log_file.stat().st_size if broker.log_file.exists() else 0
    words = [f"{text} {dirs.second}".encode() for text in GOES_OFFLINE]

    def is_out() -> bool:
        text = broker.log_file.read_bytes()[said:]
        return any(word in text for word in words)

    try:
        broker.start()
    except BrokerFailedError:
        return REFUSES
    with suppress(TimeoutError):  # it may happen when it begins to lead or to clean
        wait_until(is_out, "an offline directory", patience)
    try:
        if is_out():
            return OFFLINE if broker.running else REFUSES
        return STARTS if all(takes_records(broker, names) for names in placed) else LEADS_NOTHING
    finally:
        broker.kill()


def takes_records(broker: Broker, partitions: set[str]) -> bool:
    """Whether the first of these partitions is served."""
    number = int(min(partitions).removeprefix(f"{TOPIC}-"))
    plain = {"enable_idempotence": False, "message_timeout_ms": 30_000}
    try:
        broker.client.produce(TOPIC, [Record(b"k", b"v")], partition=number, **plain)
    except (RuntimeError, TimeoutError):
        return False
    return True


@pytest.mark.parametrize(
    "case", [case if case in ALWAYS else pytest.param(case, marks=SOAK) for case in CASES]
)
def test_recover_and_doctor_foretell_how_far_a_start_comes(case: str, stopped: Broker) -> None:
    damage, expected = CASES[case]
    dirs = restore(stopped)
    damage(dirs)
    told = run("recover", "--format", "csv", configuration(stopped))
    words = {line.split(b",")[2] for line in told.stdout.splitlines()[1:] if line.count(b",") >= 3}
    foretold = REFUSES if b"refuse" in words else OFFLINE if b"offline" in words else STARTS
    assert foretold == (REFUSES if expected == LEADS_NOTHING else expected), told.stdout.decode()
    assert diagnose(configuration(stopped)).verdict == VERDICTS[expected]
    # What is expected may take its time on a busy machine; that it does not come, nobody can wait for.
    assert outcome(stopped, dirs, 60 if expected == OFFLINE else 6) == expected


@pytest.mark.soak
def test_a_copy_whose_original_is_missing_loses_its_records_and_recover_says_so(stopped: Broker) -> None:
    dirs = restore(stopped)
    original = dirs.partition(dirs.first)
    copy = dirs.second / f"{original.name}.{ID}-future"
    shutil.move(original, copy)
    size = (copy / "00000000000000000000.log").stat().st_size
    assert size > 0
    assert b"cuts this copy down to it" in run("recover", configuration(stopped)).stdout
    assert diagnose(configuration(stopped)).lost_partitions == {copy.name}
    stopped.start()
    try:
        wait_until(lambda: (dirs.second / original.name).exists(), "the copy in its place")
        assert (dirs.second / original.name / "00000000000000000000.log").stat().st_size == 0
    finally:
        stopped.kill()


@pytest.mark.soak
def test_a_copy_that_the_metadata_knows_takes_its_place_and_recover_says_so(stopped: Broker) -> None:
    dirs = restore(stopped)
    original = dirs.partition(dirs.first)
    copy = original.with_name(f"{original.name}.{ID}-future")
    original.rename(copy)
    assert b"this copy takes its place" in run("recover", configuration(stopped)).stdout
    assert diagnose(configuration(stopped)).verdict == "starts"
    stopped.start()
    try:
        wait_until(lambda: led(stopped) == {f"{TOPIC}-{number}" for number in range(4)}, "all leaders")
        assert original.exists()
        assert not copy.exists()
    finally:
        stopped.kill()


@pytest.mark.soak
def test_a_partition_that_the_metadata_does_not_know_is_set_aside_and_recover_says_so(
    stopped: Broker,
) -> None:
    dirs = restore(stopped)
    path = dirs.partition(dirs.second)
    (path / TOPIC_ID).write_text("version: 0\ntopic_id: XHpw3kXRRGqmVILEOZWN3Q")
    assert b"set aside as stray" in run("recover", configuration(stopped)).stdout
    assert diagnose(configuration(stopped)).lost_partitions == {path.name}
    stopped.start()
    try:
        wait_until(lambda: any(dirs.second.glob(f"{path.name}.*-stray")), "a stray partition")
    finally:
        stopped.kill()
