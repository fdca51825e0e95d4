"""How far partitions are copied to remote storage, by `__remote_log_metadata`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkatool.engine.cluster import remote_copies
from kafkatool.engine.cluster.remote_copies import (
    NOTHING,
    TOPIC_NAME,
    EpochOffsets,
    RemoteCopies,
    highest_remote_offset,
    read_remote_copies,
)
from kafkatool.engine.cluster.view import ClusterView, Replicas
from kafkatool.engine.directory.log_dir import LogDir, Partition, read_log_dir
from kafkatool.format.batch import NewRecord
from kafkatool.format.schema.remote_log_metadata import metadata_partition
from kafkatool.format.state.checkpoint import (
    EpochStart,
    PartitionOffset,
    write_leader_epochs,
    write_offset_checkpoint,
)
from kafkatool.format.uuids import parse_uuid
from tests.engine.disk import TOPIC_ID, write_partition
from tests.engine.remote_metadata import copied, now, started, write_remote_metadata
from tests.logs import GUEST
from tests.places import FIXTURES

CASES = FIXTURES / "remote-log-metadata"
OTHER_ID = "b3RoZXIgdG9waWMgaWQgMQ"


def found(log_dir: Path, *, at_log_end: bool = False) -> EpochOffsets | None:
    known = read_remote_copies([read_log_dir(str(log_dir), GUEST)], GUEST, at_log_end=at_log_end)
    return known.copied.get((TOPIC_ID, 0))


def test_a_copy_counts_once_it_is_finished(tmp_path: Path) -> None:
    write_remote_metadata(tmp_path, *copied(1, 0, 9), started(2, 10, 19))
    assert found(tmp_path) == {0: 9}
    write_remote_metadata(tmp_path, *copied(1, 0, 9), *copied(2, 10, 19))
    assert found(tmp_path) == {0: 19}


def test_what_was_deleted_from_remote_storage_was_copied_all_the_same(tmp_path: Path) -> None:
    gone = [now(1, "DELETE_SEGMENT_STARTED"), now(1, "DELETE_SEGMENT_FINISHED")]
    write_remote_metadata(tmp_path, *copied(1, 0, 9), *gone)
    assert found(tmp_path) == {0: 9}


def test_a_copy_that_was_given_up_never_counts(tmp_path: Path) -> None:
    late = [
        now(1, "DELETE_SEGMENT_STARTED"),
        now(1, "COPY_SEGMENT_FINISHED"),
        now(7, "COPY_SEGMENT_FINISHED"),
    ]
    write_remote_metadata(tmp_path, started(1, 0, 9), *late)
    assert found(tmp_path) is None


def test_each_leader_epoch_of_a_segment_has_its_own_end(tmp_path: Path) -> None:
    write_remote_metadata(tmp_path, *copied(1, 0, 9, {3: 0, 5: 4, 6: 8}), *copied(2, 10, 12, {6: 10}))
    assert found(tmp_path) == {3: 3, 5: 7, 6: 12}


def test_another_topic_of_that_name_is_another_topic(tmp_path: Path) -> None:
    write_remote_metadata(
        tmp_path,
        started(1, 0, 99, topic_id=OTHER_ID),
        now(1, "COPY_SEGMENT_FINISHED", topic_id=OTHER_ID),
        *copied(2, 0, 9),
    )
    assert found(tmp_path) == {0: 9}


def test_only_what_consumers_of_the_metadata_see_counts(tmp_path: Path) -> None:
    write_remote_metadata(tmp_path, *copied(1, 0, 9), *copied(2, 10, 19))
    checkpoint = write_offset_checkpoint([PartitionOffset(TOPIC_NAME, 0, 3)])
    (tmp_path / "replication-offset-checkpoint").write_bytes(checkpoint)
    assert found(tmp_path) == {0: 9}
    assert found(tmp_path, at_log_end=True) == {0: 19}


def test_of_two_replicas_the_one_that_reaches_further_counts(tmp_path: Path) -> None:
    write_remote_metadata(tmp_path / "a", *copied(1, 0, 9), *copied(2, 10, 19))
    write_remote_metadata(tmp_path / "b", *copied(1, 0, 9))
    for order in ("ab", "ba"):
        log_dirs = [read_log_dir(str(tmp_path / name), GUEST) for name in order]
        assert read_remote_copies(log_dirs, GUEST).copied == {(TOPIC_ID, 0): {0: 19}}


def test_damage_and_strange_records_never_raise_what_is_copied(tmp_path: Path) -> None:
    strange = [NewRecord(None, None, 0), NewRecord(None, b"", 0), NewRecord(None, b"\1\xff\1", 0)]
    backwards = [started(3, 50, -7, {}), now(3, "COPY_SEGMENT_FINISHED")]
    path = write_remote_metadata(tmp_path, *strange, *copied(1, 0, 9), *backwards, *copied(2, 10, 19))
    assert found(tmp_path) == {0: 19}
    data = path.read_bytes()
    for at in range(0, len(data), 17):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        assert found(tmp_path) in ({0: 19}, {0: 9}, None)


def test_no_log_can_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_copies, "MOST_EPOCHS", 3)
    many = [started(number, 0, 9, partition=number) for number in range(1, 9)]
    write_remote_metadata(tmp_path, *copied(9, 0, 9), *many, *copied(10, 10, 19))
    assert found(tmp_path) == {0: 9}


# --- of one log ---------------------------------------------------------------------------------------


def highest(tmp_path: Path, epochs: list[tuple[int, int]], log_end: int, copied: EpochOffsets) -> int | None:
    path = tmp_path / "orders-0"
    if not path.exists():
        write_partition(tmp_path, "orders-0")
    entries = [EpochStart(*one) for one in epochs]
    (path / "leader-epoch-checkpoint").write_bytes(write_leader_epochs(entries))
    return highest_remote_offset(only(read_log_dir(str(tmp_path), GUEST)), log_end, copied, GUEST)


def only(log_dir: LogDir) -> Partition:
    (partition,) = [one for one in log_dir.partitions if one.topic == "orders"]
    return partition


def test_the_newest_epoch_of_which_something_is_copied_decides(tmp_path: Path) -> None:
    epochs = [(0, 0), (2, 50), (3, 80)]
    assert highest(tmp_path, epochs, 120, {0: 49, 2: 60}) == 60
    assert highest(tmp_path, epochs, 120, {0: 49, 2: 79, 3: 99}) == 99
    assert highest(tmp_path, epochs, 120, {0: 20}) == 20
    assert highest(tmp_path, epochs, 120, {}) == NOTHING


def test_no_offset_counts_beyond_the_end_of_its_epoch_here(tmp_path: Path) -> None:
    epochs = [(0, 0), (2, 50)]
    assert highest(tmp_path, epochs, 120, {0: 70}) == 49
    assert highest(tmp_path, epochs, 60, {0: 49, 2: 99}) == 59
    assert highest(tmp_path, epochs, 120, {0: 49, 1: 70}) == 49


def test_without_leader_epochs_nothing_can_be_said(tmp_path: Path) -> None:
    path = write_partition(tmp_path, "orders-0") / "leader-epoch-checkpoint"
    path.write_bytes(b"no such thing")
    partition = only(read_log_dir(str(tmp_path), GUEST))
    assert highest_remote_offset(partition, 120, {0: 49}, GUEST) is None
    path.unlink()
    partition = only(read_log_dir(str(tmp_path), GUEST))
    assert highest_remote_offset(partition, 120, {0: 49}, GUEST) is None


# --- who knows ----------------------------------------------------------------------------------------


def cluster_of(count: int) -> ClusterView:
    replicas = Replicas((1,), (1,), 1, 0)
    topics = {TOPIC_ID: "orders", OTHER_ID: TOPIC_NAME}
    return ClusterView(topic_ids=topics, partitions={(OTHER_ID, number): replicas for number in range(count)})


def test_nothing_is_copied_only_where_the_partition_that_would_tell_is_there(tmp_path: Path) -> None:
    write_partition(tmp_path, "orders-0")
    keeper = metadata_partition(parse_uuid(TOPIC_ID) or b"", 0, 5)
    for number in range(5):
        there = tmp_path / str(number)
        write_partition(there, "orders-0")
        write_remote_metadata(there, started(1, 0, 9, partition=4), number=number)
        log_dir = read_log_dir(str(there), GUEST)
        copies = RemoteCopies([log_dir], [], GUEST)
        assert copies.of(only(log_dir), log_dir, cluster_of(5)) == ({} if number == keeper else None)
        assert copies.of(only(log_dir), log_dir, ClusterView()) is None


@pytest.mark.parametrize("version", ["3.9", "4.3"])
def test_what_a_broker_wrote_names_the_last_offset_before_its_active_segment(version: str) -> None:
    log_dir = read_log_dir(str(CASES / version), GUEST)
    (partition,) = [one for one in log_dir.partitions if one.topic == "tiered"]
    copied = RemoteCopies([log_dir], [], GUEST).of(partition, log_dir, ClusterView())
    assert copied is not None
    active = partition.live_segments[-1].base_offset
    assert highest_remote_offset(partition, active + 1, copied, GUEST) == active - 1 == 26
