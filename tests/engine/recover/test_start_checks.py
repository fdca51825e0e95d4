"""What a broker says to a log directory before it looks at any partition.

Every verdict here was seen on brokers; tests/kafka/starting/test_start_parity.py asks them again.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkatool.engine.cluster.broker_dirs import configured_brokers, siblings
from kafkatool.engine.cluster.view import ClusterView, Replicas
from kafkatool.engine.directory.log_dir import LogDir, read_log_dir
from kafkatool.engine.recover.assignment import fate_of
from kafkatool.engine.recover.start_checks import StartChecks, check_start
from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.release import Release
from tests.cli import run
from tests.engine.disk import CLUSTER_ID, METADATA, OTHER_ID, TOPIC_ID, write_node_dir
from tests.logs import GUEST


def read(path: Path) -> LogDir:
    return read_log_dir(str(path), GUEST)


def check(path: Path) -> StartChecks:
    return check_start(read(path), GUEST)


def verdict(found: StartChecks) -> str:
    if found.refusals:
        return "refuse"
    return "offline" if found.offline else "note" if found.notes else "start"


def test_a_directory_with_nothing_wrong_keeps_nobody_from_starting(tmp_path: Path) -> None:
    assert verdict(check(write_node_dir(tmp_path / "logs"))) == "start"


# --- checkpoints --------------------------------------------------------------------------------------

NUMBER = ("0\n1\norders 0 x\n", "0\n1\norders x 3\n", "0\n-1\n", "0\n2\norders 0 x\norders 0\n")
SHAPE = (
    "1\n0\n",
    "x\n",
    "0\nx\n",
    "0\n5\norders 0 3\n",
    "0\n1\norders 0\n",
    "0\n1\n orders 0 3\n",
    "\0" * 40,
)


@pytest.mark.parametrize("text", SHAPE)
@pytest.mark.parametrize("name", ["recovery-point", "log-start", "replication", "cleaner"])
def test_a_checkpoint_of_the_wrong_shape_costs_the_directory_and_with_the_metadata_the_start(
    tmp_path: Path, name: str, text: str
) -> None:
    for metadata, expected in ((True, "refuse"), (False, "offline")):
        path = write_node_dir(tmp_path / expected, metadata=metadata)
        (path / f"{name}-offset-checkpoint").write_text(text)
        assert verdict(check(path)) == expected


@pytest.mark.parametrize("text", NUMBER)
@pytest.mark.parametrize(
    ("name", "expected"),
    [("recovery-point", "note"), ("log-start", "note"), ("replication", "refuse"), ("cleaner", "note")],
)
def test_a_wrong_number_in_a_checkpoint_matters_by_what_it_is_for(
    tmp_path: Path, name: str, text: str, expected: str
) -> None:
    path = write_node_dir(tmp_path / "logs", metadata=False)
    (path / f"{name}-offset-checkpoint").write_text(text)
    assert verdict(check(path)) == expected


# --- owners -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "with_metadata", "without"),
    [
        ("version=1", "version=7", "refuse", "offline"),
        ("version=1", "version=\\u00zz", "refuse", "offline"),
        ("node.id=7", "node.id=x", "refuse", "offline"),
        ("node.id=7\n", "", "refuse", "offline"),
        ("cluster.id", "no.id", "refuse", "offline"),
        (f"directory.id={TOPIC_ID}", "directory.id=xx", "refuse", "offline"),
        (f"directory.id={TOPIC_ID}", "directory.id=AAAAAAAAAAAAAAAAAAAAYw", "refuse", "refuse"),
        (f"directory.id={TOPIC_ID}\n", "", "note", "note"),
    ],
)
def test_an_owner_that_cannot_be_read_costs_the_directory_and_with_the_metadata_the_start(
    tmp_path: Path, old: str, new: str, with_metadata: str, without: str
) -> None:
    for metadata, expected in ((True, with_metadata), (False, without)):
        path = write_node_dir(tmp_path / str(metadata), metadata=metadata)
        owner = path / "meta.properties"
        assert old in owner.read_text()
        owner.write_text(owner.read_text().replace(old, new))
        assert verdict(check(path)) == expected


@pytest.mark.parametrize("content", [None, "", "version=0\nbroker.id=7\n"])
def test_a_kraft_node_needs_an_owner_with_a_node_id_and_a_zookeeper_broker_does_not(
    tmp_path: Path, content: str | None
) -> None:
    for metadata, expected in ((True, "refuse"), (False, "start")):
        path = write_node_dir(tmp_path / str(metadata), metadata=metadata)
        (path / "meta.properties").unlink()
        if content is not None:
            (path / "meta.properties").write_text(content)
        assert verdict(check(path)) == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [("node.id=7", "node.id=8"), (CLUSTER_ID, OTHER_ID), (OTHER_ID, TOPIC_ID)],
)
def test_directories_of_one_broker_that_disagree_keep_it_from_starting(
    tmp_path: Path, old: str, new: str
) -> None:
    one, two = (
        write_node_dir(tmp_path / "a"),
        write_node_dir(tmp_path / "b", metadata=False, directory_id=OTHER_ID),
    )
    shutil.rmtree(two / "orders-0")
    owner = two / "meta.properties"
    owner.write_text(owner.read_text().replace(old, new))
    both = [read(one), read(two)]
    assert verdict(check_start(both[1], GUEST, both)) == "refuse"


def test_the_configured_node_id_must_be_the_owner(tmp_path: Path) -> None:
    path = write_node_dir(tmp_path / "logs")
    assert verdict(check_start(read(path), GUEST, None, node_id=7)) == "start"
    assert verdict(check_start(read(path), GUEST, None, node_id=8)) == "refuse"


@pytest.mark.parametrize("name", ["orders-0", "orders-0.0123456789abcdef0123456789abcdef-future"])
def test_one_partition_in_two_directories_keeps_a_broker_from_starting_but_one_copy_on_its_way_does_not(
    tmp_path: Path, name: str
) -> None:
    one, two = (
        write_node_dir(tmp_path / "a"),
        write_node_dir(tmp_path / "b", metadata=False, directory_id=OTHER_ID),
    )
    (two / "orders-0").rename(two / name)
    both = [read(one), read(two)]
    expected = "refuse" if name == "orders-0" else "start"
    assert verdict(check_start(both[1], GUEST, both)) == expected
    shutil.copytree(two / name, one / "orders-0.fedcba9876543210fedcba9876543210-future")
    both = [read(one), read(two)]
    assert verdict(check_start(both[1], GUEST, both)) == "refuse"


def test_the_directories_of_one_configuration_are_judged_together_by_the_command(tmp_path: Path) -> None:
    one, two = (
        write_node_dir(tmp_path / "a"),
        write_node_dir(tmp_path / "b", metadata=False, directory_id=OTHER_ID),
    )
    config = tmp_path / "server.properties"
    config.write_text(f"node.id=7\nlog.dirs={one},{two}\n")
    (broker,) = configured_brokers([str(config)])
    assert (len(broker.log_dirs), broker.node_id) == (2, 7)
    done = run("recover", str(config))
    assert done.exit_code == 4
    assert b"a broker does not start with both" in done.stdout
    # And without it: the same cluster and the same node.
    assert b"a broker does not start with both" in run("recover", str(one), str(two)).stdout


def test_directories_of_two_nodes_are_not_held_against_each_other(tmp_path: Path) -> None:
    one, two = write_node_dir(tmp_path / "a"), write_node_dir(tmp_path / "b", directory_id=OTHER_ID)
    (two / "meta.properties").write_text(f"version=1\nnode.id=8\ncluster.id={CLUSTER_ID}\n")
    both = [read(one), read(two)]
    assert siblings(both[0], both, []) == ([both[0]], None)


# --- the election and the beginning -------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        "[1]",
        '{"leaderId":1,"leaderEpoch":1,"votedId":-1}',
        '{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":null,"data_version":0}',
        '{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":[1],"data_version":0}',
        '{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"data_version":0}',
        '{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"currentVoters":[],"data_version":0}',
        '{"leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":[],"data_version":0}',
        '{"leaderId":1,"leaderEpoch":"1","votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}',
        '{"leaderId":1,"leaderEpoch":1.5,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}',
        '{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"zz","data_version":1}',
        '{"leaderId":1,"leaderEpoch":1,"votedId":-1,"data_version":1}',
        '{"leaderId":1,"leaderEpoch":1,"votedId":-1,"data_version":9}',
    ],
)
def test_a_quorum_state_that_cannot_be_read_keeps_a_node_from_starting(tmp_path: Path, text: str) -> None:
    path = write_node_dir(tmp_path / "logs")
    (path / METADATA / "quorum-state").write_text(text)
    assert verdict(check(path)) == "refuse"


ELECTION = '"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":[]'


@pytest.mark.parametrize("version", ['"x"', "65536", "null", "0, "])
def test_a_quorum_state_is_read_as_leniently_as_a_node_reads_it(tmp_path: Path, version: str) -> None:
    path = write_node_dir(tmp_path / "logs")
    more = ',"more":1' if version.endswith(" ") else ""
    text = f'{{{ELECTION},"data_version":{version.rstrip(", ")}{more}}} and more'
    (path / METADATA / "quorum-state").write_text(text)
    assert verdict(check(path)) == "start"
    (path / METADATA / "quorum-state").unlink()
    assert verdict(check(path)) == "start"


@pytest.mark.parametrize("content", [b"", b"garbage", write_batch([NewRecord(None, b"else", 0)])])
def test_a_beginning_without_a_version_keeps_a_node_from_starting_and_none_at_all_does_not(
    tmp_path: Path, content: bytes
) -> None:
    path = write_node_dir(tmp_path / "logs")
    (path / "bootstrap.checkpoint").write_bytes(content)
    assert verdict(check(path)) == "refuse"
    (path / "bootstrap.checkpoint").unlink()
    assert verdict(check(path)) == "start"


@pytest.mark.parametrize(
    ("level", "release", "ending"),
    [
        (33, None, "33: Kafka 4.2 and older do not start with it"),
        (33, Release.V4_3, "33: Kafka 4.2 and older do not start with it"),
        (29, Release.V4_1, "29: Kafka 4.0 and older do not start with it"),
        (33, Release.V4_2, None),
        (27, Release.V3_9, None),
    ],
)
def test_the_first_snapshot_of_a_newer_kafka_is_named_and_stops_a_release_that_is_too_old(
    tmp_path: Path, level: int, release: Release | None, ending: str | None
) -> None:
    path = write_node_dir(tmp_path / "logs")
    old = path / "bootstrap.checkpoint"
    record = b"\x01\x0c\x00\x11metadata.version" + level.to_bytes(2, "big") + b"\x00"
    snapshot = path / METADATA / "00000000000000000000-0000000000.checkpoint"
    snapshot.write_bytes(write_batch([NewRecord(None, record, 0)]))
    assert not check_start(read(path), GUEST).remarks  # the old file is there: nothing is new about it
    old.unlink()
    found = check_start(read(path), GUEST, release=release)
    if ending is None:
        assert verdict(found) == "refuse"
        assert f"Kafka {release.label if release else ''} does not start with it" in found.refusals[0]
    else:
        assert verdict(found) == "start"
        assert [one.endswith(ending) for one in found.remarks] == [True]


# --- what the metadata says of a directory ------------------------------------------------------------

FUTURE = "orders-0.0123456789abcdef0123456789abcdef-future"


def view(replicas: tuple[int, ...], *directories: str) -> ClusterView:
    known = {(TOPIC_ID, 0): Replicas(replicas, replicas, 7, 0, (), directories)}
    return ClusterView(is_known=True, topic_ids={TOPIC_ID: "orders"}, partitions=known)


def fate(log_dir: Path, known: ClusterView, *others: Path) -> str | None:
    found = read(log_dir)
    partition = next(one for one in found.partitions if one.topic == "orders")
    decided = fate_of(partition, found, [found, *map(read, others)], known)
    return decided.what if decided else None


def test_a_partition_that_the_metadata_does_not_give_to_this_node_is_set_aside(tmp_path: Path) -> None:
    path = write_node_dir(tmp_path / "logs")
    assert fate(path, view((7,), TOPIC_ID)) is None
    assert fate(path, view((8, 9))) == "stray"
    assert fate(path, ClusterView(is_known=True)) == "stray"
    assert fate(path, ClusterView(is_known=True, is_complete=False)) is None
    (path / "orders-0" / "partition.metadata").unlink()
    assert fate(path, view((7,), TOPIC_ID)) == "stray"


def test_a_copy_on_its_way_takes_over_where_the_metadata_has_it_and_loses_all_where_the_old_one_is_missing(
    tmp_path: Path,
) -> None:
    old, new = (
        write_node_dir(tmp_path / "old"),
        write_node_dir(tmp_path / "new", metadata=False, directory_id=OTHER_ID),
    )
    (new / "orders-0").rename(new / FUTURE)
    assert fate(new, view((7,), TOPIC_ID), old) is None
    assert fate(new, view((7,), OTHER_ID), old) == "promote"
    shutil.rmtree(old / "orders-0")
    assert fate(new, view((7,), OTHER_ID), old) == "promote"
    assert fate(new, view((7,), TOPIC_ID), old) == "empty"
    # The directory that it should be in was not named: it may well be there.
    assert fate(new, view((7,), TOPIC_ID)) is None
