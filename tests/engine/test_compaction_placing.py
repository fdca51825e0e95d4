"""A compacted partition put where it is wanted; C26 of the worked cases: a power cut at every step."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkatool.engine.applying import apply
from kafkatool.engine.batch_records import records_of
from kafkatool.engine.compaction.cleaner import Cleaning
from kafkatool.engine.compaction.passes import Compacted, Work, compact
from kafkatool.engine.compaction.placing import plan_swap, write_partition
from kafkatool.engine.fs import Disk
from kafkatool.engine.journal import read_journal
from kafkatool.engine.plan import Applying, Plan
from kafkatool.engine.source import Guest
from kafkatool.engine.undo import undo
from kafkatool.errors import Refused
from kafkatool.format.checkpoint import read_offset_checkpoint
from tests.engine.compaction_logs import ROOM, TIME, CleanLog, read_batches
from tests.engine.swap_crashes import crashed_swaps, offsets_found

NOW = 10_000
GUEST = Guest(cache_keep=True)
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
    return compact(log.read(NOW), 0, how, Work(Disk(), str(work), "t-0"), most)


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
    batches = [batch for batch in read_batches(path) if not batch.header.is_control]  # type: ignore[union-attr]
    return [record.offset for batch in batches for record in records_of(batch.header, batch.data or b"")]
