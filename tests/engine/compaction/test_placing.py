"""A compacted partition put where it is wanted; C26 of the worked cases: a power cut at every step."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from random import Random

import pytest

from kafkatool.engine.batches.records import records_of
from kafkatool.engine.compaction.cleaner import Cleaning
from kafkatool.engine.compaction.passes import Compacted, PassWork, compact
from kafkatool.engine.compaction.placing import plan_swap, write_partition
from kafkatool.engine.files.disk import Disk
from kafkatool.engine.plan.applying import apply
from kafkatool.engine.plan.journal import read_journal
from kafkatool.engine.plan.steps import Applying, Plan
from kafkatool.engine.plan.undo import undo
from kafkatool.errors import Refused
from kafkatool.format.batch import Codec
from kafkatool.format.state.checkpoint import read_offset_checkpoint
from tests.engine.compaction_logs import ROOM, TIME, CleanLog, read_batches
from tests.engine.crash_disk import CrashDisk, every_crash
from tests.engine.swap_crashes import crashed_swaps, offsets_found
from tests.logs import GUEST

NOW = 10_000
SMALL = {"internal.segment.bytes": "400", "segment.index.bytes": "1200"}


def partition_at(directory: Path) -> CleanLog:
    """Five segments of which four can be cleaned, into two; with an aborted transaction."""
    directory.mkdir(parents=True)
    log = CleanLog(directory / "t-0", dict(SMALL))
    for number in range(3):
        log.put(f"{number % 3}=x").put(f"{number}=y").roll()
    log.put("z=1", pid=1, txn=True).abort(1).roll().put("0=last")
    log.close()
    return log


def compacted(log: CleanLog, work: Path, capacity: int = ROOM, most: int | None = 1) -> Compacted:
    work.mkdir(exist_ok=True)
    how = Cleaning(log.config, NOW, capacity, GUEST)
    return compact(log.read(NOW), 0, how, PassWork(Disk(), str(work), "t-0"), most)


def swap(log: CleanLog, done: Compacted) -> Plan:
    return plan_swap(done, str(log.directory), str(log.directory.parent), ("t", 0), GUEST)


def test_a_compacted_copy_is_a_whole_partition(tmp_path: Path) -> None:
    log = partition_at(tmp_path / "logs")
    done = compacted(log, tmp_path / "work")
    write_partition(done, str(log.directory), str(tmp_path / "work" / "t-0"), Disk(), GUEST)
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["t-0"]
    log.clean(0)
    copy = CleanLog(tmp_path / "work" / "t-0", dict(SMALL))
    assert copy.segments() == log.segments()
    assert copy.aborted() == log.aborted()
    for path in log.directory.glob("*.log"):
        assert path.stat().st_mtime_ns // 10**6 == (copy.directory / path.name).stat().st_mtime_ns // 10**6


def test_a_copy_does_not_overwrite_anything(tmp_path: Path) -> None:
    log = partition_at(tmp_path / "logs")
    done = compacted(log, tmp_path / "work")
    (tmp_path / "work" / "t-0").mkdir()
    with pytest.raises(Refused):
        write_partition(done, str(log.directory), str(tmp_path / "work" / "t-0"), Disk(), GUEST)


@pytest.mark.parametrize("checkpoint", [0, 8], ids=["cleaned", "nothing to clean"])
def test_a_power_cut_leaves_a_whole_copy_or_none(tmp_path: Path, checkpoint: int) -> None:
    log = partition_at(tmp_path / "logs")

    def work(disk: CrashDisk) -> None:
        how = Cleaning(log.config, NOW, ROOM, GUEST)
        done = compact(log.read(NOW), checkpoint, how, PassWork(disk, disk.root, "t-0"), 1)
        write_partition(done, str(log.directory), f"{disk.root}/t-0", disk, GUEST)

    def copy_in(directory: Path) -> dict[str, tuple[bytes, int]]:
        paths = (directory / "t-0").glob("*")
        return {path.name: (path.read_bytes(), path.stat().st_mtime_ns // 10**6) for path in paths}

    (tmp_path / "whole").mkdir()
    work(CrashDisk(tmp_path / "whole"))
    expected = copy_in(tmp_path / "whole")
    assert ".log" in {Path(name).suffix for name in expected}
    for crash in every_crash(tmp_path / "crash", lambda root: None, work):
        found, where = copy_in(crash.left), (crash.way, crash.operations[-1])
        assert with_its_times(found) in (with_its_times(expected), {}), where
        assert bool(found) or not crash.done, where


def with_its_times(copy: dict[str, tuple[bytes, int]]) -> dict[str, bytes | tuple[bytes, int]]:
    """The times of logs, by which brokers delete, count; the cleaner gives those of an index no meaning."""
    return {name: one if name.endswith(".log") else one[0] for name, one in copy.items()}


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = partition_at(tmp_path / "logs")
    (tmp_path / "work").mkdir()
    how = Cleaning(log.config, NOW, ROOM, GUEST)
    done = compact(log.read(NOW), 8, how, PassWork(Disk(), str(tmp_path / "work"), "t-0"), 1)
    assert done.passes == []

    def is_full(self: Disk, source: str, target: str) -> None:
        raise OSError(28, "No space left on device", target)

    monkeypatch.setattr(Disk, "rename", is_full)
    with pytest.raises(OSError, match="No space left"):
        write_partition(done, str(log.directory), str(tmp_path / "work" / "t-0"), Disk(), GUEST)
    assert list((tmp_path / "work").iterdir()) == []


def test_passes_go_on_until_nothing_is_left(tmp_path: Path) -> None:
    log = partition_at(tmp_path / "logs")
    done = compacted(log, tmp_path / "work", capacity=3, most=None)
    assert len(done.passes) > 1
    assert done.left.cleanable_bytes == 0
    write_partition(done, str(log.directory), str(tmp_path / "work" / "t-0"), Disk(), GUEST)
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["t-0"]
    again = CleanLog(tmp_path / "work" / "t-0", dict(SMALL))
    before = again.shown()
    again.clean(0, capacity=ROOM)
    assert again.offsets() == [int(one.partition(":")[0]) for one in before if "∅" not in one]


def merging_partition(directory: Path, seed: int, codec: Codec) -> CleanLog:
    """Random batches over some keys, in segments of any size that the first passes put together."""
    directory.mkdir(parents=True)
    log, pick = CleanLog(directory / "t-0", {"internal.segment.bytes": "1500"}, codec=codec), Random(seed)
    for _segment in range(6):
        for _batch in range(pick.randint(1, 12)):
            pairs = (f"{pick.randrange(20)}={pick.randrange(1000)}" for _ in range(pick.randint(1, 4)))
            log.put(*pairs, pid=pick.choice([-1, 1]))
        log.roll()
    log.close()
    return log


def files_of(directory: Path) -> dict[str, bytes]:
    names = re.compile(r"\d{20}\.(log|index|timeindex|txnindex|snapshot)")
    return {path.name: path.read_bytes() for path in directory.iterdir() if names.fullmatch(path.name)}


@pytest.mark.long
@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("seed", range(3))
def test_passes_after_a_merge_leave_what_as_many_single_runs_leave(
    tmp_path: Path, seed: int, codec: Codec
) -> None:
    log = merging_partition(tmp_path / "logs", seed, codec)
    last = len(compacted(log, tmp_path / "counted", capacity=6, most=None).passes)
    single = CleanLog(tmp_path / "single" / "t-0", dict(log.settings))
    shutil.copytree(log.directory, single.directory)
    checkpoint, has_merged = 0, False
    for most in range(1, last + 1):
        done = compacted(log, tmp_path / f"work-{most}", capacity=6, most=most)
        copy = tmp_path / f"work-{most}" / "t-0"
        write_partition(done, str(log.directory), str(copy), Disk(), GUEST)
        cleaned = single.clean(checkpoint, NOW, capacity=6)
        checkpoint = cleaned.end_offset
        merged = {one.base_offset for group, _new in cleaned.groups for one in group[1:]}
        for base in merged:
            (single.directory / f"{base:020d}.snapshot").unlink()
        assert files_of(copy) == files_of(single.directory), most
        has_merged |= bool(merged) and most < last
    assert has_merged


@pytest.mark.parametrize("most", [2, 3, None])
def test_a_swap_after_a_merge_and_another_pass_leaves_no_segment_of_the_old_log(
    tmp_path: Path, most: int | None
) -> None:
    log = CleanLog(tmp_path / "t-0")
    log.put("a=1").put("b=1").roll().put("a=2").put("c=1").put("d=1").put("e=1").roll().put("z=1")
    before = log.segments()
    done = compacted(log, tmp_path / "work", capacity=2, most=most)
    assert [len(one.cleaned.groups[0][0]) for one in done.passes] == [1, 2, 1][:most]
    plan = swap(log, done)
    removed = sorted(
        Path(step.path).name for stage in plan.stages for step in stage if step.action == "remove"
    )
    assert [name for name in removed if name.endswith((".log", ".snapshot"))] == [
        f"{0:020d}.log",
        f"{2:020d}.log",
        f"{2:020d}.snapshot",
    ]
    journal = apply(plan, Disk(), Applying(NOW, offline=True))
    assert log.segments() == {0: ["1:b=1", "2:a=2", "3:c=1", "4:d=1", "5:e=1"], 6: ["6:z=1"]}
    assert offsets_found(log.directory, log.config, TIME) == [1, 2, 3, 4, 5, 6]
    undo(read_journal(journal), Disk(), offline=True, now_ms=NOW)
    assert log.segments() == before


def test_no_key_at_all_in_the_map_is_no_endless_loop(tmp_path: Path) -> None:
    log = partition_at(tmp_path / "logs")
    assert len(compacted(log, tmp_path / "work", capacity=0, most=None).passes) == 1


def test_the_swap_leaves_what_the_cleaner_leaves_and_can_be_undone(tmp_path: Path) -> None:
    log = partition_at(tmp_path / "logs")
    before = log.segments()
    done = compacted(log, tmp_path / "work")
    journal = apply(swap(log, done), Disk(), Applying(NOW, offline=True))
    after = log.segments()
    assert sum(map(len, after.values())) < sum(map(len, before.values()))
    checkpoint = read_offset_checkpoint((log.directory.parent / "cleaner-offset-checkpoint").read_bytes())
    assert [(one.topic, one.partition, one.offset) for one in checkpoint] == [("t", 0, 8)]
    undo(read_journal(journal), Disk(), offline=True, now_ms=NOW)
    assert log.segments() == before


def test_c26_a_power_cut_at_any_step_leaves_the_old_log_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.fsync", lambda _fd: None)  # of the disk below the one that crashes
    log = partition_at(tmp_path / "old")
    done = compacted(log, tmp_path / "work")
    (tmp_path / "crash").mkdir()
    found: dict[frozenset[tuple[str, bytes]], list[int]] = {}
    seen = []
    for crash in crashed_swaps(done, log.directory, "t", tmp_path / "crash"):
        files = crash.files
        if files not in found:
            found[files] = offsets_found(crash.directory, log.config, TIME)
        seen.append((crash.operation, found[files]))
    new = [offset for segment in done.after.segments for offset in offsets_in(Path(segment.path))]
    old = offsets_found(log.directory, log.config, TIME)
    assert old != new
    assert [one for one in seen if one[1] not in (old, new)] == []
    assert (seen[0][1], seen[-1][1]) == (old, new)
    # Every kind of step is among those that were cut short.
    kinds = {(words[0], Path(words[-1]).suffix) for words in (one[0].split() for one in seen)}
    assert {("rename", ".cleaned"), ("rename", ".swap"), ("rename", ".log"), ("rename", ".txnindex")} <= kinds


def offsets_in(path: Path) -> list[int]:
    """Of data: markers are nobody's records."""
    batches = [batch for batch in read_batches(path) if not batch.header.is_control]
    return [record.offset for batch in batches for record in records_of(batch.header, batch.data or b"")]
