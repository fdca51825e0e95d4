"""A broker's next start, followed in thought: what it would do, what it refuses, and what is kept."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from kafkatool.engine.batches.mending import Mender
from kafkatool.engine.directory.log_dir import read_partition
from kafkatool.engine.files.disk import Disk, Files
from kafkatool.engine.files.source import Guest
from kafkatool.engine.plan.applying import apply
from kafkatool.engine.plan.journal import read_journal
from kafkatool.engine.plan.steps import Applying
from kafkatool.engine.plan.undo import undo
from kafkatool.engine.recover.planning import as_plan, plan_recover
from kafkatool.engine.recover.result import Recovered, StartFacts
from kafkatool.engine.recover.salvage import salvage
from kafkatool.errors import Refused
from kafkatool.format.batch import CONTROL_MASK, TRANSACTIONAL_MASK, NewRecord, read_header
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.names import segment_file
from kafkatool.format.offset_index import OffsetEntry, write_entries
from kafkatool.format.release import Release
from kafkatool.format.schema.control import write_end_marker
from kafkatool.format.state.producer_snapshot import write_snapshot
from tests.cli import run
from tests.engine.crash_disk import CrashDisk, PowerCut, every_way
from tests.engine.disk import START_MS, flip_second_batch, write_partition, write_segment
from tests.log_dirs import read_tree
from tests.logs import GUEST, offsets, walk
from tests.mutations import flip, put
from tests.places import FIXTURES

HOW = StartFacts(now_ms=START_MS)


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """Segments 0, 60 and 120, each of 30 batches of two records."""
    return write_partition(tmp_path / "logs", "orders-0", segments=3)


def recovered(directory: Path, how: StartFacts = HOW) -> Recovered:
    return plan_recover(read_partition(str(directory), [], GUEST), how, GUEST)


def do_recover(directory: Path, files: Files | None = None, how: StartFacts = HOW) -> str:
    plan = as_plan(str(directory.parent), [recovered(directory, how)])
    return apply(plan, files or Disk(), Applying(START_MS)) if plan.steps else ""


def whats(found: Recovered) -> list[tuple[str, int | None]]:
    return [(event.what, event.segment) for event in found.events]


def test_everything_above_the_recovery_point_is_scanned_and_nothing_below(orders: Path) -> None:
    assert whats(recovered(orders)) == [("scan", 0), ("scan", 60), ("scan", 120)]
    assert whats(recovered(orders, StartFacts(START_MS, recovery_point=61))) == [("scan", 60), ("scan", 120)]


def test_the_first_damage_ends_the_log_and_what_lies_behind_it_is_told(orders: Path) -> None:
    flip_second_batch(orders, 60)
    found = recovered(orders)
    assert whats(found) == [("scan", 0), ("scan", 60), ("cut", 60), ("delete", 120)]
    cut = next(event for event in found.events if event.what == "cut")
    size = read_header((orders / segment_file(60, ".log")).read_bytes()).size
    assert (cut.position, cut.first_offset, found.lost_to, found.log_end) == (size, 62, 179, 62)


def test_zeros_that_were_reserved_are_cut_and_nothing_is_lost(orders: Path) -> None:
    log = orders / segment_file(120, ".log")
    whole = log.read_bytes()
    log.write_bytes(whole + bytes(5000))
    found = recovered(orders)
    assert whats(found)[-1] == ("trim", 120)
    assert (found.loses, found.cuts) == (False, [])
    done = run("recover", "--apply", str(orders.parent))
    assert done.exit_code == 0
    assert log.read_bytes() == whole
    # One byte that is no zero may have been a record.
    log.write_bytes(whole + bytes(4999) + b"x")
    assert recovered(orders).loses
    # In front of other segments they cost those.
    (orders / segment_file(60, ".log")).write_bytes(
        (orders / segment_file(60, ".log")).read_bytes() + bytes(99)
    )
    assert whats(recovered(orders))[-2:] == [("trim", 60), ("delete", 120)]
    assert recovered(orders).loses


LOG_DIRS = sorted(
    {
        path.parent.parent
        for group in ("replicas", "log-dir", "index", "transactions", "compacted", "leftovers", "legacy")
        for path in (FIXTURES / group).rglob("*.log")
    }
)


@pytest.mark.parametrize("log_dir", LOG_DIRS, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_nothing_of_what_a_broker_left_is_lost_by_leader_or_follower(log_dir: Path) -> None:
    done = run("recover", "--format", "ndjson", str(log_dir))
    what = {row["what"] for row in done.of("recovery") if row["segment"] is not None}
    assert (done.exit_code, what - {"scan", "leftover", "swap", "trim"}) == (0, set())
    assert "scan" in what


def test_damage_below_the_recovery_point_is_not_seen(orders: Path) -> None:
    flip_second_batch(orders, 0)
    found = recovered(orders, StartFacts(START_MS, recovery_point=61))
    assert not found.loses


def kept(directory: Path, name: str) -> Path:
    """The original that the only run kept."""
    (found,) = directory.glob(f"{name}.kafkatool-*")
    return found


def test_a_second_recovery_has_nothing_to_do_and_undo_brings_everything_back(orders: Path) -> None:
    flip_second_batch(orders, 60)
    before = read_tree(orders)
    journal = do_recover(orders)
    assert kept(orders, segment_file(120, ".log")).exists()
    assert do_recover(orders) == ""
    undo(read_journal(journal), Disk(), offline=False, now_ms=START_MS)
    assert read_tree(orders) == before


def test_a_log_that_ends_below_its_start_is_deleted_and_begins_anew_there(orders: Path) -> None:
    flip_second_batch(orders, 0)
    before = (orders / segment_file(0, ".log")).read_bytes()
    how = StartFacts(START_MS, log_start=100)
    found = recovered(orders, how)
    assert found.loses
    assert ("delete", 0) in whats(found)
    assert (found.refusal, found.log_end, found.lost_to) == (None, 100, 179)
    assert [position for _path, position in found.cuts] == [0, 0, 0]
    do_recover(orders, how=how)
    assert [path.name for path in orders.glob("*.log")] == [segment_file(100, ".log")]
    assert (orders / "leader-epoch-checkpoint").read_text() == "0\n0\n"
    assert kept(orders, segment_file(0, ".log")).read_bytes() == before


@pytest.mark.parametrize("point", [-5, (1 << 63) - 1])
def test_a_recovery_point_that_means_nothing_is_survived(orders: Path, point: int) -> None:
    scanned = [("scan", 0), ("scan", 60), ("scan", 120)] if point < 0 else []
    found = recovered(orders, StartFacts(START_MS, recovery_point=point))
    assert (whats(found), found.log_end) == (scanned, 180)


def test_producers_of_a_tiered_log_are_kept_from_before_its_first_segment_here(orders: Path) -> None:
    for extension in (".log", ".index", ".timeindex"):
        (orders / segment_file(0, extension)).unlink()
    (orders / segment_file(60, ".snapshot")).write_bytes(write_snapshot([]))
    for is_tiered in (False, True):
        found = recovered(orders, StartFacts(START_MS, recovery_point=100, is_tiered=is_tiered))
        removed = [
            os.path.basename(step.path) for step in as_plan("", [found]).steps if step.action == "remove"
        ]
        assert removed == ([] if is_tiered else [segment_file(60, ".snapshot")])


# --- partitions that wait to be deleted, and the metadata log ---------------------------------------------


def test_a_partition_that_waits_to_be_deleted_is_told_and_left_to_the_broker(tmp_path: Path) -> None:
    name = "orders-0.0123456789abcdef0123456789abcdef-delete"
    directory = write_partition(tmp_path / "logs", name, segments=2)
    flip_second_batch(directory, 60)
    found = recovered(directory)
    assert (whats(found), found.stages, found.loses) == ([("delete", None)], [], False)
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 x\n")
    assert whats(recovered(directory)) == [("refuse", None)]
    write_partition(tmp_path / "logs", "orders-0")
    assert run("recover", str(tmp_path / "logs")).exit_code == 4


def write_metadata_log(log_dir: Path, *, first: int = 0, snapshots: tuple[str, ...] = ()) -> Path:
    """A metadata log of epoch 1 with the offsets from `first` to `first` + 59, and snapshots by name."""
    directory = log_dir / "__cluster_metadata-0"
    directory.mkdir(parents=True)
    write_segment(directory, first, is_active=True)
    (directory / "leader-epoch-checkpoint").write_text(f"0\n1\n0 {first}\n")
    for name in snapshots:
        (directory / name).write_bytes(write_batch([NewRecord(None, b"v", START_MS)]))
    return directory


def snapshot(offset: int, epoch: int = 0) -> str:
    return f"{offset:020d}-{epoch:010d}.checkpoint"


def test_snapshots_of_the_metadata_log_that_are_not_needed_go(tmp_path: Path) -> None:
    unneeded = (f"{snapshot(70)}.part", f"{snapshot(50)}.deleted", snapshot(30))
    directory = write_metadata_log(tmp_path, first=40, snapshots=(*unneeded, snapshot(40), snapshot(45)))
    do_recover(directory)
    left = {path.name for path in directory.glob("*.checkpoint*") if "kafkatool" not in path.name}
    assert left == {snapshot(40), snapshot(45)}


@pytest.mark.parametrize("newest", [snapshot(61), snapshot(10, epoch=3)])
def test_a_metadata_log_gives_way_to_a_snapshot_that_is_ahead_of_it(tmp_path: Path, newest: str) -> None:
    directory = write_metadata_log(tmp_path, snapshots=(snapshot(5), newest))
    found = recovered(directory)
    assert not found.loses
    do_recover(directory)
    assert [path.name for path in directory.glob("*.log")] == [segment_file(int(newest[:20]), ".log")]
    assert [path.name for path in directory.glob("*.checkpoint")] == [newest]
    assert (directory / "leader-epoch-checkpoint").read_text() == "0\n0\n"


@pytest.mark.parametrize("content", [b"", b"garbage" * 20])
def test_a_newest_snapshot_that_cannot_be_read_keeps_a_node_from_starting(
    tmp_path: Path, content: bytes
) -> None:
    directory = write_metadata_log(tmp_path, snapshots=(snapshot(5), snapshot(10)))
    assert recovered(directory).refusal is None
    (directory / snapshot(5)).write_bytes(content)
    assert recovered(directory).refusal is None
    (directory / snapshot(10)).write_bytes(content)
    assert recovered(directory).refusal is not None


def test_a_metadata_log_without_its_beginning_keeps_a_node_from_starting(tmp_path: Path) -> None:
    assert recovered(write_metadata_log(tmp_path / "a")).refusal is None
    assert recovered(write_metadata_log(tmp_path / "b", first=40)).refusal is not None
    odd = write_metadata_log(tmp_path / "c", snapshots=("odd.checkpoint",))
    assert recovered(odd).refusal is not None
    other = write_metadata_log(tmp_path / "d")
    (other / "partition.metadata").write_text("version: 0\ntopic_id: Y2F0cyBhbmQgZG9ncyBydQ")
    assert recovered(other).refusal is not None


@pytest.mark.parametrize("content", ["0\n1\n0 0 0\n", "1\n0\n", "0\n2\n0 0\n", "0\n1\nx 0\n", "0\n1\n-1 0\n"])
def test_leader_epochs_that_cannot_be_read_keep_a_broker_from_starting(orders: Path, content: str) -> None:
    (orders / "leader-epoch-checkpoint").write_text(content)
    assert recovered(orders).refusal


@pytest.mark.parametrize(
    ("file", "content", "is_offline"),
    [
        ("leader-epoch-checkpoint", "0\n1\n0 0 0\n", True),
        ("leader-epoch-checkpoint", "0\n1\n0 x\n", False),
        ("leader-epoch-checkpoint", "0\n1\n-1 0\n", False),
        ("leader-epoch-checkpoint", "0\n-1\n", False),
        ("partition.metadata", "garbage\n", True),
        ("partition.metadata", "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", True),
        ("partition.metadata", "version: 0\ntopic_id: abc", False),
    ],
)
def test_what_is_no_number_stops_a_broker_and_what_has_no_shape_costs_it_the_directory(
    orders: Path, file: str, content: str, is_offline: bool
) -> None:
    (orders / file).write_text(content)
    assert recovered(orders).is_offline is is_offline
    beside = recovered(orders, StartFacts(START_MS, is_beside_metadata=True))
    assert (beside.is_offline, beside.refusal is not None) == (False, True)


def test_an_offset_outside_its_segment_keeps_a_broker_from_starting(orders: Path) -> None:
    path = orders / segment_file(60, ".log")
    data = path.read_bytes()
    size = read_header(data).size
    path.write_bytes(data[:size] + bytes(8) + data[size + 8 :])
    found = recovered(orders)
    assert found.refusal is not None
    assert "Split operation" in found.refusal


def test_a_partition_without_a_log_gets_an_empty_one_at_its_start(tmp_path: Path) -> None:
    directory = tmp_path / "logs" / "empty-0"
    directory.mkdir(parents=True)
    do_recover(directory, how=StartFacts(START_MS, log_start=7))
    found = read_tree(directory)
    assert found[segment_file(7, ".log")] == b""


# --- power cuts ---------------------------------------------------------------------------------------


def damage(directory: Path) -> None:
    """A complete swap of the first segment, leftovers, a cut in the second, and a third behind it."""
    for extension in (".log", ".index", ".timeindex"):
        path = directory / segment_file(0, extension)
        shutil.copy2(path, f"{path}.swap")
    shutil.copy2(directory / segment_file(0, ".log"), directory / f"{segment_file(0, '.log')}.deleted")
    flip_second_batch(directory, 60)


def facts(directory: Path) -> dict[str, bytes]:
    """Zeros that a broker reserved behind index entries aside."""
    return {
        name: data.rstrip(b"\0") if name.endswith("index") else data
        for name, data in read_tree(directory).items()
    }


def test_after_a_power_cut_another_recovery_comes_to_the_same_end(memory_path: Path) -> None:
    wanted_at = write_partition(memory_path / "wanted", "orders-0", segments=3)
    damage(wanted_at)
    do_recover(wanted_at)
    wanted = facts(wanted_at)
    number, is_cut = 0, True
    while is_cut:
        directory = write_partition(memory_path / f"disk-{number}", "orders-0", segments=3)
        damage(directory)
        disk = CrashDisk(directory.parent, stop_at=number)
        with suppress(PowerCut):
            do_recover(directory, disk)
        is_cut = disk.is_cut
        for way, (_name, keep, tear) in enumerate(every_way(number)):
            left = disk.survivors(memory_path / f"left-{number}-{way}", keep=keep, tear=tear)
            do_recover(left / "orders-0")
            assert facts(left / "orders-0") == wanted, disk.operations
            shutil.rmtree(left)
        shutil.rmtree(directory.parent)
        number += 1
    assert number > 30


# --- what lies behind the damage ----------------------------------------------------------------------


def transactions(directory: Path) -> None:
    """Producer 1 opens before the hole; 2 ends behind it; 3 begins and ends there, twice; 4 stays open."""

    def data(offset: int, producer: int) -> bytes:
        return write_batch(
            [NewRecord(b"k", b"v", START_MS)],
            base_offset=offset,
            attributes=TRANSACTIONAL_MASK,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            partition_leader_epoch=0,
        )

    def end(offset: int, producer: int) -> bytes:
        key, value = write_end_marker(committed=True, coordinator_epoch=0)
        return write_batch(
            [NewRecord(key, value, START_MS)],
            base_offset=offset,
            attributes=TRANSACTIONAL_MASK | CONTROL_MASK,
            producer_id=producer,
            producer_epoch=0,
            partition_leader_epoch=0,
        )

    hole = bytearray(data(2, 9))
    hole[65] ^= 1
    parts = [data(0, 1), data(1, 2), bytes(hole), end(3, 2), data(4, 3), end(5, 3), data(6, 3), end(7, 3)]
    directory.mkdir(parents=True)
    (directory / segment_file(0, ".log")).write_bytes(b"".join([*parts, data(8, 4)]))


def test_good_batches_behind_the_damage_are_saved_with_what_cannot_be_proven(tmp_path: Path) -> None:
    directory = tmp_path / "logs" / "payments-0"
    transactions(directory)
    saved = salvage(recovered(directory), str(tmp_path / "saved"), Disk(), GUEST)
    (path,) = (tmp_path / "saved").iterdir()
    assert offsets(walk(path)[0]) == [3, 4, 5, 6, 7, 8]
    assert [(one.producer_id, one.first_offset) for one in saved.transactions] == [
        (1, 0),
        (2, 1),
        (3, 4),
        (4, 8),
    ]


def test_what_is_saved_goes_to_a_new_directory_outside_of_the_log_directory(tmp_path: Path) -> None:
    directory = tmp_path / "logs" / "payments-0"
    transactions(directory)
    for wrong in (tmp_path / "logs" / "saved", directory / "saved", tmp_path):
        with pytest.raises(Refused):
            salvage(recovered(directory), str(wrong), Disk(), GUEST)


# --- the command --------------------------------------------------------------------------------------


def test_the_command_tells_and_does(orders: Path) -> None:
    flip_second_batch(orders, 60)
    told = run("recover", str(orders))
    assert told.exit_code == 4
    assert b"delete" in told.stdout
    assert b"nothing was changed" in told.stderr
    done = run("recover", "--apply", str(orders))
    assert (done.exit_code, run("recover", str(orders)).exit_code) == (0, 0)
    journal = str(next(orders.glob("recover.kafkatool-*")))
    assert run("rebuild-index", "--undo", journal).exit_code == 2
    assert b"bring it back" in run("recover", "--undo", journal).stdout
    assert run("recover", "--undo", journal, "--apply").exit_code == 0
    assert run("recover", str(orders)).exit_code == 4


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("recovery-point-offset-checkpoint", "0\n7\norders 0 61\n", 4),
        ("recovery-point-offset-checkpoint", "1\n1\norders 0 61\n", 4),
        ("recovery-point-offset-checkpoint", "0\n1\norders 0 x\n", 0),
        ("recovery-point-offset-checkpoint", "", 0),
        ("log-start-offset-checkpoint", "0\n1\norders 0\n", 4),
        ("replication-offset-checkpoint", "0\n2\norders 0 3\n", 4),
        ("replication-offset-checkpoint", "0\n1\norders 0 x\n", 4),
        ("cleaner-offset-checkpoint", "0\n1\norders 0 x\n", 0),
    ],
)
def test_checkpoints_that_a_broker_does_not_start_with_are_told(
    orders: Path, name: str, content: str, code: int
) -> None:
    (orders.parent / name).write_text(content)
    done = run("recover", str(orders.parent))
    assert done.exit_code == code
    assert (b"refuse" in done.stdout or b"offline" in done.stdout) == (code == 4)
    assert run("recover", "--apply", "--offline", str(orders.parent)).exit_code == code


def test_a_directory_that_is_nobodys_keeps_a_broker_from_starting(orders: Path) -> None:
    (orders.parent / "lost+found").mkdir()
    assert b"no partition's" in run("recover", str(orders.parent)).stdout


@pytest.mark.parametrize("option", ["--apply", "--offline"])
def test_keep_after_damage_takes_one_partition(orders: Path, option: str) -> None:
    write_partition(orders.parent, "orders-1")
    done = run("recover", option, "--keep-after-damage", "x", str(orders.parent))
    assert done.exit_code == 2


# --- bytes that no checksum covers ----------------------------------------------------------------------


@pytest.mark.parametrize("magic", [3, 5, 127])
@pytest.mark.parametrize("base", [0, 120])
def test_a_batch_of_unknown_magic_is_kept_and_told_as_unreadable(orders: Path, magic: int, base: int) -> None:
    """As a broker does: the magic lies outside the checksum."""
    before = recovered(orders)
    log = orders / segment_file(base, ".log")
    size = read_header(log.read_bytes()).size
    put(log, size + 16, bytes([magic]))
    put(log, 2 * size + 16, bytes([magic]))
    found = recovered(orders)
    (event,) = [event for event in found.events if event.what == "unreadable"]
    assert (event.segment, event.position) == (base, size)
    assert (event.first_offset, event.last_offset) == (base + 2, base + 5)
    assert (found.log_end, found.cuts, found.stages) == (before.log_end, [], before.stages)
    assert found.loses
    assert run("recover", str(orders.parent)).exit_code == 4


@pytest.mark.parametrize("magic", [0, 1, 0x80, 0xFF])
def test_a_batch_of_a_magic_below_two_is_cut_for_its_checksum(orders: Path, magic: int) -> None:
    log = orders / segment_file(120, ".log")
    size = read_header(log.read_bytes()).size
    put(log, size + 16, bytes([magic]))
    assert [event.position for event in recovered(orders).events if event.what == "cut"] == [size]


CLEAN = StartFacts(now_ms=START_MS, is_clean=True)


def false_message(directory: Path, attributes: int) -> None:
    """The batch that the last index entry of the active segment leads to looks like a message of magic 1."""
    index = (directory / segment_file(120, ".index")).read_bytes()
    position = int.from_bytes(index[-4:], "big")
    put(directory / segment_file(120, ".log"), position + 16, bytes([1, attributes]))


@pytest.mark.parametrize(
    ("attributes", "refusing"),
    [(0, ()), (1, (Release.V4_0, Release.V4_3)), (4, (Release.V4_0, Release.V4_1)), (5, (Release.V4_3,))],
)
def test_a_batch_that_looks_like_an_old_message_stops_a_start_that_believes_the_index(
    orders: Path, attributes: int, refusing: tuple[Release, ...]
) -> None:
    """From 4.0 on a broker asks for the first offset, and such a message must be decompressed for it."""
    false_message(orders, attributes)
    assert recovered(orders, replace(CLEAN, release=Release.V3_9)).refusal is None
    for release in refusing:
        refusal = recovered(orders, replace(CLEAN, release=release)).refusal
        assert refusal is not None
        assert "an entry of magic 1" in refusal
    if not refusing:
        assert recovered(orders, CLEAN).refusal is None


def test_producers_are_replayed_only_over_a_chain_that_holds(orders: Path) -> None:
    """A snapshot lies in the middle of the active segment; a length behind it is none."""
    log = orders / segment_file(120, ".log")
    size = read_header(log.read_bytes()).size
    (orders / segment_file(122, ".snapshot")).write_bytes(write_snapshot([]))
    last = OffsetEntry(59, log.stat().st_size - size)
    (orders / segment_file(120, ".index")).write_bytes(write_entries([last]))
    assert recovered(orders, CLEAN).refusal is None
    put(log, size + 8, (3).to_bytes(4, "big"))
    assert "the length field cannot be right" in (recovered(orders, CLEAN).refusal or "")


# --- names that stand for an offset ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "end"), [("-0000000000000000001.log", 180), ("0.log", 180), ("5.log", 180), ("500.log", 500)]
)
def test_a_log_under_a_name_that_no_broker_writes_is_never_opened(orders: Path, name: str, end: int) -> None:
    """A broker opens, or makes, the log that the offset in the name stands for."""
    (orders / name).write_bytes((orders / segment_file(0, ".log")).read_bytes())
    found = recovered(orders)
    assert ("misnamed", int(name.partition(".")[0])) in whats(found)
    assert (found.refusal, found.log_end) == (None, end)
    before = read_tree(orders)
    done = run("recover", "--apply", str(orders.parent))
    assert done.exit_code == 4
    assert read_tree(orders) == before  # what a broker would make hides records


def test_a_lonely_log_of_a_negative_offset_leaves_an_empty_log(tmp_path: Path) -> None:
    orders = write_partition(tmp_path / "logs", "orders-0", segments=1)
    for path in list(orders.glob("0*")):
        path.rename(orders / path.name.replace("00000000000000000000", "-0000000000000000001"))
    found = recovered(orders)
    assert (found.refusal, found.log_end) == (None, 0)


def test_a_snapshot_is_read_under_whatever_name_stands_for_its_offset(orders: Path) -> None:
    (orders / "121.snapshot").write_bytes(b"garbled")
    (orders / "-0000000000000000005.snapshot").write_bytes(b"garbled")
    for how in (HOW, CLEAN):
        assert recovered(orders, how).refusal is None


# --- flipped bits that are mended -----------------------------------------------------------------------


def mended(directory: Path, how: StartFacts = HOW) -> Recovered:
    guest = Guest(cache_keep=True, mending=Mender())
    return plan_recover(read_partition(str(directory), [], guest), how, guest)


def logs_of(directory: Path) -> dict[str, bytes]:
    return {name: data for name, data in read_tree(directory).items() if name.endswith(".log")}


@pytest.mark.parametrize(
    ("base", "byte", "bit"),
    [
        *((60, 100, 0), (60, 8, 0), (60, 10, 1), (60, 11, 7), (60, 16, 0), (60, 16, 6), (60, 17, 5)),
        *((60, 22, 2), (60, 23, 3), (60, 57, 1), (0, 100, 0), (120, 300, 4)),
    ],
)
def test_a_flipped_bit_is_written_back_nothing_is_cut_and_it_can_be_undone(
    base: int, byte: int, bit: int, orders: Path
) -> None:
    before, path = logs_of(orders), orders / segment_file(base, ".log")
    start = read_header(path.read_bytes()).size
    flip(path, start + byte, bit)
    damaged, looks = read_tree(orders), path.stat()
    found = mended(orders)
    assert [one for one in whats(found) if one[0] != "scan"] == [("mend", base)]
    event = next(event for event in found.events if event.what == "mend")
    assert (event.position, event.first_offset, event.last_offset) == (start, base + 2, base + 3)
    assert (found.loses, found.log_end) == (False, 180)
    assert read_tree(orders) == damaged
    journal = apply(as_plan(str(orders.parent), [found]), Disk(), Applying(START_MS))
    assert logs_of(orders) == before
    assert path.stat().st_mtime_ns == looks.st_mtime_ns
    assert whats(recovered(orders)) == [("scan", 0), ("scan", 60), ("scan", 120)]
    undo(read_journal(journal), Disk(), offline=False, now_ms=START_MS)
    assert read_tree(orders) == damaged


def test_a_bit_below_the_recovery_point_is_mended_too(orders: Path) -> None:
    """A broker would not look there, and every consumer would fail at it."""
    before = logs_of(orders)
    flip_second_batch(orders, 0)
    how = StartFacts(START_MS, recovery_point=130)
    assert whats(recovered(orders, how)) == [("scan", 120)]
    apply(as_plan(str(orders.parent), [mended(orders, how)]), Disk(), Applying(START_MS))
    assert logs_of(orders) == before


def test_what_lies_behind_other_damage_is_cut_from_the_mended_log(orders: Path) -> None:
    whole = (orders / segment_file(60, ".log")).read_bytes()
    flip_second_batch(orders, 60)
    path = orders / segment_file(60, ".log")
    size = read_header(path.read_bytes()).size
    put(path, 4 * size + 100, bytes(20))
    found = mended(orders)
    assert [one for one in whats(found) if one[0] != "scan"] == [("mend", 60), ("cut", 60), ("delete", 120)]
    apply(as_plan(str(orders.parent), [found]), Disk(), Applying(START_MS))
    assert path.read_bytes() == whole[: 4 * size]


def test_a_mended_log_survives_a_crash_at_any_moment(memory_path: Path) -> None:
    """It is old or new, never something between, and with the same command again it is new."""
    is_cut, number = True, 0
    while is_cut:
        directory = write_partition(memory_path / f"disk-{number}", "orders-0", segments=1)
        log = segment_file(0, ".log")
        new = (directory / log).read_bytes()
        flip_second_batch(directory, 0)
        old = (directory / log).read_bytes()
        disk = CrashDisk(directory.parent, stop_at=number)
        with suppress(PowerCut):
            apply(as_plan(str(directory.parent), [mended(directory)]), disk, Applying(START_MS))
        is_cut = disk.is_cut
        for way, (_name, keep, tear) in enumerate(every_way(number)):
            left = disk.survivors(memory_path / f"left-{number}-{way}", keep=keep, tear=tear)
            assert (left / "orders-0" / log).read_bytes() in (old, new), disk.operations
            plan = as_plan(str(left), [mended(left / "orders-0")])
            if plan.steps:
                apply(plan, Disk(), Applying(START_MS))
            assert (left / "orders-0" / log).read_bytes() == new
            shutil.rmtree(left)
        shutil.rmtree(directory.parent)
        number += 1
    assert number > 10
