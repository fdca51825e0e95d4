"""What the log says of its side files: what real brokers wrote, but for exceptions that are explained."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from kafkatool.engine.batches.damage import FindingClass
from kafkatool.engine.cluster.topic_settings import setting, topic_settings
from kafkatool.engine.directory.log_dir import PartitionState, read_partition
from kafkatool.engine.files.disk import Disk
from kafkatool.engine.plan.applying import apply
from kafkatool.engine.plan.steps import Applying
from kafkatool.engine.rebuild.planning import Rebuilding, Rebuilt, as_plan, plan_rebuild
from kafkatool.format.names import parse_partition_directory, segment_file
from kafkatool.format.offset_index import OffsetEntry, read_entries, write_entries
from kafkatool.format.state.producer_snapshot import read_snapshot
from tests.engine.disk import write_partition
from tests.log_dirs import read_tree
from tests.logs import GUEST
from tests.mutations import flip
from tests.places import FIXTURES

NOW = 1_700_000_100_000  # within a day of the hand-made logs
PARTITIONS = sorted({str(path.parent.relative_to(FIXTURES)) for path in FIXTURES.rglob("*.log")})


def interval_of(directory: Path) -> int:
    """What the fixture's makers set: in the metadata beside it, in its ORIGIN.md, or for all legacy logs."""
    named = parse_partition_directory(directory.name)
    topic = named.topic if named else ""
    case = FIXTURES.joinpath(*directory.relative_to(FIXTURES).parts[:2])
    for metadata in sorted(case.rglob("__cluster_metadata-0")):
        known = topic_settings(str(metadata.parent), GUEST)
        if found := setting(known, topic, "index.interval.bytes"):
            return int(found)
    origin = next(parent / "ORIGIN.md" for parent in directory.parents if (parent / "ORIGIN.md").exists())
    said = re.search(rf"topic `{re.escape(topic)}`[^\n]*index\.interval\.bytes=(\d+)", origin.read_text())
    is_legacy = directory.relative_to(FIXTURES).parts[0] == "legacy" and topic != "compacted"
    return int(said[1]) if said else 100 if is_legacy else 4096


def rebuilt(directory: Path, *, force: bool = False, interval: int | None = None) -> Rebuilt:
    partition = read_partition(str(directory), [], GUEST)
    how = Rebuilding(NOW, interval_of(directory) if interval is None else interval, force)
    return plan_rebuild(partition, None, how, GUEST)


def names(result: Rebuilt) -> set[str]:
    """`3.index` for what would be written anew."""
    stems = (os.path.basename(one.step.path).partition(".") for one in result.differences)
    return {f"{int(stem)}.{extension}" for stem, _dot, extension in stems}


def is_deleted(name: str) -> bool:
    return name.endswith("-delete")


@pytest.mark.parametrize("name", [name for name in PARTITIONS if not is_deleted(name)])
def test_nothing_that_a_broker_wrote_needs_to_be_rebuilt(name: str) -> None:
    result = rebuilt(FIXTURES / name)
    assert names(result) == set()
    assert not result.damage


# Made anew to the byte, some files are not the broker's own: each test below says why.


def exact(name: str) -> set[str]:
    return names(rebuilt(FIXTURES / name, force=True))


RESTARTED = {
    "cluster-metadata/3.9/__cluster_metadata-0",
    "cluster-metadata/4.3/__cluster_metadata-0",
    "log-dir/leftovers-3.9/logs1/__cluster_metadata-0",
    "log-dir/leftovers-4.3/logs1/__cluster_metadata-0",
    "transaction-state/3.9/__transaction_state-0",
    "transaction-state/4.3/__transaction_state-0",
}
CLEANED = {name for name in PARTITIONS if name.endswith(("compacted-txn-0", "cleaning-0"))}
REPLICAS = {name for name in PARTITIONS if name.startswith("replicas/")}
OTHERS = [name for name in PARTITIONS if not is_deleted(name) and name not in RESTARTED | CLEANED | REPLICAS]


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_made_from_the_log_is_what_the_broker_wrote(name: str) -> None:
    assert exact(name) == set()


@pytest.mark.parametrize("name", sorted(RESTARTED))
def test_a_broker_that_was_restarted_began_to_count_anew_and_closed_the_time_index_before(name: str) -> None:
    assert exact(name)
    assert {file.partition(".")[2] for file in exact(name)} <= {"timeindex", "index"}


@pytest.mark.parametrize("name", sorted(CLEANED))
def test_a_cleaned_log_no_longer_holds_all_the_batches_that_its_snapshots_count(name: str) -> None:
    found = exact(name)
    last = max(int(path.name[:20]) for path in (FIXTURES / name).glob("*.log"))
    # The cleaner's broker was killed: its last segment was never closed.
    assert {file for file in found if file != f"{last}.timeindex"} <= {f"{n}.snapshot" for n in (7, 14, 29)}


@pytest.mark.parametrize("name", sorted(REPLICAS))
def test_a_replica_that_was_killed_or_restarted_differs_in_its_index_entries_only(name: str) -> None:
    assert {file.partition(".")[2] for file in exact(name)} <= {"timeindex", "index"}


def test_a_partition_that_waits_to_be_deleted_was_never_trimmed() -> None:
    for name in filter(is_deleted, PARTITIONS):
        assert read_partition(str(FIXTURES / name), [], GUEST).state is PartitionState.DELETED
        assert names(rebuilt(FIXTURES / name)) <= {"0.index", "0.timeindex"}


# --- logs made by hand --------------------------------------------------------------------------------


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    return write_partition(tmp_path / "logs", "orders-0", segments=3)


def test_missing_and_lying_indexes_come_back_as_they_were(orders: Path) -> None:
    wanted = read_tree(orders)
    (orders / segment_file(0, ".index")).unlink()
    (orders / segment_file(60, ".index")).write_bytes(write_entries([OffsetEntry(3, 77)]))
    (orders / segment_file(60, ".timeindex")).write_bytes(b"")
    found = rebuilt(orders, interval=4096)
    assert names(found) == {"0.index", "60.index", "60.timeindex", "60.snapshot", "120.snapshot"}
    wrong = next(one for one in found.differences if one.step.path.endswith("60.index"))
    assert (wrong.only_there, wrong.only_here, wrong.entries) == (1, 5, 5)
    apply(as_plan(str(orders.parent), [found]), Disk(), Applying(NOW))
    there = read_tree(orders)
    snapshots = [there.pop(f"{segment_file(base, '.snapshot')}") for base in (60, 120)]
    assert there == wanted
    assert [read_snapshot(snapshot) for snapshot in snapshots] == [[], []]
    assert not rebuilt(orders, interval=4096).differences


def test_zeros_behind_the_entries_of_a_closed_segment_are_cut(orders: Path) -> None:
    path = orders / segment_file(0, ".timeindex")
    path.write_bytes(path.read_bytes() + bytes(120))
    found = rebuilt(orders, interval=4096).differences
    reason = next(one.step.why for one in found if one.step.path.endswith("000.timeindex"))
    assert reason == "120 bytes behind its entries in a closed segment"


@pytest.mark.parametrize("extension", [".index", ".timeindex"])
def test_of_the_bytes_behind_the_entries_of_the_active_segment_only_whole_zeros_are_believed(
    orders: Path, extension: str
) -> None:
    path = orders / segment_file(120, extension)
    entries = path.read_bytes().rstrip(b"\0")
    path.write_bytes(entries + bytes(96))
    assert f"120{extension}" not in names(rebuilt(orders, interval=4096))
    path.write_bytes(entries + bytes(48) + b"\x07" + bytes(47))
    assert f"120{extension}" in names(rebuilt(orders, interval=4096))
    path.write_bytes(entries + bytes(97))
    found = {os.path.basename(one.step.path): one for one in rebuilt(orders, interval=4096).differences}
    assert found[path.name].step.why == "its last entry is cut short"
    # The time index gets the entry that closes it besides.
    content = found[path.name].step.content
    assert isinstance(content, bytes)
    assert content.startswith(entries)


def test_an_index_that_is_right_but_sparse_is_made_anew(orders: Path) -> None:
    path = orders / segment_file(0, ".index")
    path.write_bytes(path.read_bytes()[:8])
    assert "0.index" in names(rebuilt(orders, interval=4096))


@pytest.mark.parametrize("far", [50_000, 59])
def test_an_entry_with_an_offset_above_those_behind_it_is_not_believed(orders: Path, far: int) -> None:
    """A batch begins where it leads, so it costs no search; but the next entry is then out of order."""
    path = orders / segment_file(0, ".index")
    entries = list(read_entries(path.read_bytes()))
    assert len(entries) >= 3
    path.write_bytes(write_entries([entries[0]._replace(relative_offset=far), *entries[1:]]))
    assert "0.index" in names(rebuilt(orders, interval=4096))


def test_a_last_entry_with_an_offset_behind_the_log_is_not_believed(orders: Path) -> None:
    path = orders / segment_file(0, ".index")
    entries = list(read_entries(path.read_bytes()))
    path.write_bytes(write_entries([*entries[:-1], entries[-1]._replace(relative_offset=60)]))
    assert "0.index" in names(rebuilt(orders, interval=4096))
    path.write_bytes(write_entries([*entries[:-1], entries[-1]._replace(relative_offset=59)]))
    assert "0.index" not in names(rebuilt(orders, interval=4096))  # as of one append of several batches


def test_an_index_that_is_right_and_dense_is_left_alone_unless_forced(orders: Path) -> None:
    path = orders / segment_file(0, ".index")
    path.write_bytes(path.read_bytes()[8:])
    assert "0.index" not in names(rebuilt(orders, interval=4096))
    assert "0.index" in names(rebuilt(orders, interval=4096, force=True))


def test_the_good_batches_behind_damage_are_indexed_and_what_cannot_be_known_is_left(orders: Path) -> None:
    log = orders / segment_file(0, ".log")
    flip(log, log.stat().st_size // 2 + 300)
    (orders / segment_file(0, ".index")).unlink()
    found = rebuilt(orders, interval=4096)
    assert [damage.kind for _path, damage in found.damage] == [FindingClass.BAD_CRC]
    # No snapshots: the producers behind the hole are unknown.
    assert names(found) == {"0.index", "0.timeindex"}
    assert found.differences[0].entries == 5


def test_a_snapshot_whose_checksum_is_right_is_believed_and_a_garbled_one_is_made_from_it() -> None:
    directory = FIXTURES / "transactions/segments-4.3/txn-0"
    partition = read_partition(str(directory), [], GUEST)
    assert not plan_rebuild(partition, None, Rebuilding(NOW, 200), GUEST).differences


@pytest.mark.parametrize("version", ["3.9", "4.3"])
def test_garbled_snapshots_and_all_indexes_of_transactions_come_back(version: str, tmp_path: Path) -> None:
    source = FIXTURES / f"transactions/segments-{version}/txn-0"
    copy = tmp_path / "txn-0"
    copy.mkdir()
    for path in source.iterdir():
        if path.suffix == ".snapshot":
            (copy / path.name).write_bytes(path.read_bytes()[:-1] + b"\0\0")
        elif not path.suffix.endswith("index"):
            (copy / path.name).write_bytes(path.read_bytes())
    found = rebuilt(copy, interval=200)
    apply(as_plan(str(tmp_path), [found]), Disk(), Applying(NOW))
    there, wanted = read_tree(copy), read_tree(source)
    assert there == wanted
    assert not rebuilt(copy, interval=200).differences


def test_only_the_segments_that_are_named_are_rebuilt(orders: Path) -> None:
    for base in (0, 60):
        (orders / segment_file(base, ".index")).unlink()
    partition = read_partition(str(orders), [], GUEST)
    found = plan_rebuild(partition, None, Rebuilding(NOW, bases=frozenset({60})), GUEST)
    assert names(found) == {"60.index", "60.snapshot"}
