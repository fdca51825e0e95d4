"""What a broker knows of a log by its files, and deleting as it does: done, moved, purged, undone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kafkatool.engine.cluster.effective_settings import Sources
from kafkatool.engine.directory.log_dir import read_log_dir, read_partition
from kafkatool.engine.files.disk import Disk
from kafkatool.engine.plan.applying import apply
from kafkatool.engine.plan.journal import read_journal
from kafkatool.engine.plan.steps import Applying
from kafkatool.engine.plan.undo import plan_undo, undo
from kafkatool.engine.retention.deletion import plan_deletion, plan_purge, refuse_guesses
from kafkatool.engine.retention.facts import FactsReading, read_log_facts
from kafkatool.engine.retention.forecast import forecast, ingest_rate
from kafkatool.engine.retention.free import changes_that_free
from kafkatool.engine.retention.logs import JudgedLog, RetentionRequest, judge
from kafkatool.engine.retention.rules import Decision, RetentionFacts, TimeSource
from kafkatool.errors import Refused
from kafkatool.format.names import segment_file
from kafkatool.format.state.checkpoint import EpochStart, read_leader_epochs
from kafkatool.format.time_index import TimeEntry, write_entries
from tests.engine.disk import START_MS, write_mixed_log_dir, write_partition
from tests.log_dirs import read_tree
from tests.logs import GUEST

SECOND_MS = START_MS + 30_000  # the first batch of the second segment
LATER = START_MS + 3_600_000
HOW = Applying(LATER, offline=True)
SURE = {"cleanup.policy": "delete", "remote.storage.enable": "false"}


def facts(directory: Path, *, now_ms: int = LATER, check_times: bool = False) -> RetentionFacts:
    how = FactsReading(now_ms, None, None, check_times=check_times)
    return read_log_facts(read_partition(str(directory), []), how, GUEST)


def judged(
    log_dir: Path, now_ms: int = LATER, retention_ms: str = "604800000", retention_bytes: str = "-1"
) -> list[JudgedLog]:
    found = read_log_dir(str(log_dir), GUEST)
    limits = {"retention.ms": retention_ms, "retention.bytes": retention_bytes}
    sources = Sources(given={**SURE, **limits})
    orders = [one for one in found.partitions if one.directory == "orders-0"]
    return [judge(one, found, sources, RetentionRequest(now_ms), GUEST) for one in orders]


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return write_mixed_log_dir(tmp_path / "logs")


# --- facts ------------------------------------------------------------------------------------------------


def test_a_closed_segment_is_as_old_as_the_last_entry_of_its_time_index(tmp_path: Path) -> None:
    directory = write_partition(tmp_path, "t-0")
    closed, active = facts(directory).segments
    assert (closed.largest_ms, closed.largest_offset) == (START_MS + 29_001, 59)
    assert closed.largest_from is TimeSource.TIME_INDEX
    assert closed.first_ms == START_MS
    assert (active.largest_ms, active.largest_from) == (SECOND_MS + 29_001, TimeSource.RECORDS)
    assert facts(directory).log_end == 120


def test_a_time_index_that_lies_is_believed_and_told(tmp_path: Path) -> None:
    directory = write_partition(tmp_path, "t-0")
    index = directory / segment_file(0, ".timeindex")
    index.write_bytes(write_entries([TimeEntry(LATER + 5, 59)]))
    closed = facts(directory).segments[0]
    assert (closed.largest_ms, closed.log_largest_ms, closed.log_largest_offset) == (
        LATER + 5,
        START_MS + 29_001,
        59,
    )
    index.write_bytes(write_entries([TimeEntry(START_MS + 1, 1)]))
    assert facts(directory).segments[0].log_largest_ms == START_MS + 29_001
    index.write_bytes(write_entries([TimeEntry(START_MS + 99_000, 59)]))
    assert facts(directory).segments[0].log_largest_ms is None  # its tail does not prove it wrong
    assert facts(directory, check_times=True).segments[0].log_largest_ms == START_MS + 29_001


def test_zeros_at_the_end_of_a_time_index_are_the_year_1970_to_a_broker(tmp_path: Path) -> None:
    directory = write_partition(tmp_path, "t-0")
    index = directory / segment_file(0, ".timeindex")
    index.write_bytes(index.read_bytes() + bytes(12))
    assert facts(directory).segments[0].largest_ms == 0


@pytest.mark.parametrize("is_missing", [True, False])
def test_without_a_time_index_the_time_of_the_file_counts_and_the_records_are_told(
    tmp_path: Path, is_missing: bool
) -> None:
    directory = write_partition(tmp_path, "t-0")
    index, log = (directory / segment_file(0, end) for end in (".timeindex", ".log"))
    index.unlink() if is_missing else index.write_bytes(b"")
    os.utime(log, ns=(0, 77_000_000))
    closed = facts(directory).segments[0]
    assert (closed.largest_ms, closed.largest_from) == (77, TimeSource.MTIME)
    assert closed.log_largest_ms == START_MS + 29_001


def test_room_that_is_only_reserved_is_no_size(tmp_path: Path) -> None:
    directory = write_partition(tmp_path, "t-0")
    log = directory / segment_file(60, ".log")
    size = log.stat().st_size
    os.truncate(log, size + 100_000)
    assert facts(directory).segments[1].size == size


def test_a_directory_without_segments_is_an_empty_log(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    assert facts(tmp_path / "t-0").segments == ()


# --- doing it ---------------------------------------------------------------------------------------------


def test_expired_segments_are_renamed_and_come_back(log_dir: Path) -> None:
    before = read_tree(log_dir)
    found = judged(log_dir, now_ms=START_MS + 29_003, retention_ms="1")
    assert [one.decision for one in found[0].outcome.verdicts] == [Decision.DELETE, Decision.KEEP]
    refuse_guesses(found)
    journal = apply(plan_deletion(str(log_dir), found, GUEST, LATER), Disk(), HOW)
    after = read_tree(log_dir)
    gone = {f"orders-0/{segment_file(0, end)}" for end in (".log", ".index", ".timeindex")}
    assert before.keys() - after.keys() == gone | {".kafka_cleanshutdown"}
    assert after.keys() - before.keys() == {f"{name}.deleted" for name in gone}
    assert read_leader_epochs(after["orders-0/leader-epoch-checkpoint"]) == [EpochStart(0, 60)]
    undo(read_journal(journal), Disk(), offline=True, now_ms=LATER)
    assert read_tree(log_dir) == {
        name: data for name, data in before.items() if name != ".kafka_cleanshutdown"
    }


def test_where_all_goes_an_empty_segment_and_the_producers_are_left(log_dir: Path) -> None:
    found = judged(log_dir, retention_ms="1")
    apply(plan_deletion(str(log_dir), found, GUEST, LATER), Disk(), HOW)
    left = {name for name in os.listdir(log_dir / "orders-0") if not name.endswith(".deleted")}
    ends = (".log", ".index", ".timeindex", ".snapshot")
    assert {segment_file(120, end) for end in ends} == {name for name in left if name[0] == "0"}
    assert (log_dir / "orders-0" / segment_file(120, ".log")).read_bytes() == b""
    assert facts(log_dir / "orders-0").log_end == 120
    assert judged(log_dir, retention_ms="1")[0].outcome.deleted == []


@pytest.mark.parametrize("volume", ["same", "other"])
def test_segments_are_moved_to_a_place_of_their_own_and_come_back(
    log_dir: Path, tmp_path: Path, volume: str, request: pytest.FixtureRequest
) -> None:
    elsewhere = tmp_path / "kept"
    if volume == "other":
        shared = Path("/dev/shm")
        if not shared.is_dir() or shared.stat().st_dev == tmp_path.stat().st_dev:
            pytest.skip("there is no other volume")
        elsewhere = shared / f"kafkatool-{os.getpid()}"
        request.addfinalizer(lambda: shutil.rmtree(elsewhere, ignore_errors=True))
    before = read_tree(log_dir)
    found = judged(log_dir, now_ms=START_MS + 29_003, retention_ms="1")
    plan = plan_deletion(str(log_dir), found, GUEST, LATER, str(elsewhere))
    journal = apply(plan, Disk(), HOW)
    moved = read_tree(elsewhere)
    assert moved == {name: data for name, data in before.items() if name in moved}
    assert set(moved) == {f"orders-0/{segment_file(0, end)}" for end in (".log", ".index", ".timeindex")}
    assert not set(moved) & set(read_tree(log_dir))
    with pytest.raises(Refused, match="outside of its log directory"):
        read_journal(journal)
    undo(read_journal(journal, [str(elsewhere)]), Disk(), offline=True, now_ms=LATER)
    assert read_tree(log_dir) == {
        name: data for name, data in before.items() if name != ".kafka_cleanshutdown"
    }
    assert not elsewhere.exists() or not list(elsewhere.iterdir())


def test_nothing_is_deleted_by_a_guess(log_dir: Path) -> None:
    found = judged(log_dir, retention_ms="1")
    refuse_guesses(found)
    found[0].watermark_is_assumed = True
    with pytest.raises(Refused, match="high watermark is not known"):
        refuse_guesses(found)
    partition = read_log_dir(str(log_dir), GUEST)
    orders = next(one for one in partition.partitions if one.directory == "orders-0")
    one = judge(orders, partition, Sources(given={"retention.ms": "1"}), RetentionRequest(LATER), GUEST)
    with pytest.raises(
        Refused, match=r"cleanup.policy=delete, retention.bytes=-1, remote.storage.enable=false: mere"
    ):
        refuse_guesses([one])
    refuse_guesses([judge(orders, partition, Sources(), RetentionRequest(START_MS), GUEST)])  # nothing goes


def test_where_the_end_of_a_log_is_in_doubt_it_is_not_begun_anew_there(log_dir: Path) -> None:
    log = log_dir / "orders-0" / segment_file(60, ".log")
    log.write_bytes(log.read_bytes()[:-5])
    refuse_guesses(judged(log_dir, now_ms=START_MS + 29_003, retention_ms="1"))
    found = judged(log_dir, retention_ms="1")
    assert found[0].outcome.rolls_at == 118
    with pytest.raises(Refused, match=r"in doubt \(torn_tail at byte"):
        refuse_guesses(found)


def test_what_was_deleted_long_ago_is_unlinked_for_good(log_dir: Path) -> None:
    path = log_dir / "orders-0" / (segment_file(0, ".log") + ".deleted")
    path.write_bytes(b"old")
    now_ms = path.stat().st_ctime_ns // 1_000_000
    partition = read_partition(str(log_dir / "orders-0"), [])
    assert plan_purge(str(log_dir), [(partition, 60_000)], now_ms + 59_000).steps == []
    plan = plan_purge(str(log_dir), [(partition, 60_000)], now_ms + 61_000)
    journal = read_journal(apply(plan, Disk(), HOW))
    assert not path.exists()
    with pytest.raises(Refused, match="removed for good"):
        plan_undo(journal, Disk())


# --- looking ahead ----------------------------------------------------------------------------------------


def test_the_smallest_change_that_frees_enough_comes_first(log_dir: Path) -> None:
    found = judged(log_dir)
    sizes = [
        sum(min(entry.size, entry.allocated) for entry in found[0].files_of(one))
        for one in found[0].facts.segments
    ]
    ways = changes_that_free(found, sizes[0], LATER)
    assert [(change.setting.name, change.freed, change.segments) for way in ways for change in way] == [
        ("retention.bytes", sizes[0], 1),
        ("retention.ms", sizes[0], 1),
    ]
    for (change,), unit in zip(ways, ("bytes", "ms"), strict=True):
        for value, gone in ((change.value, [0]), (change.value + 1, [])):
            limits = (str(value), "-1") if unit == "ms" else ("604800000", str(value))
            assert [one.base_offset for one in judged(log_dir, LATER, *limits)[0].outcome.deleted] == gone
    everything = changes_that_free(found, sum(sizes) + 1, LATER)
    assert sum(change.freed for change in everything[0]) == sum(sizes)


def test_bytes_come_as_they_came_and_go_when_their_time_is_up(log_dir: Path) -> None:
    now_ms = SECOND_MS + 30_000
    found = judged(log_dir, now_ms=now_ms, retention_ms="120000")
    size = found[0].facts.size
    assert ingest_rate(found[0].facts, now_ms, 60_000) == pytest.approx(size / 60_000, rel=0.05)
    ahead = forecast(found, now_ms, 600_000, 10)
    assert ahead.points[0].size == size
    assert [one.segment.base_offset for one in ahead.departures] == [0]  # the active one grows
    assert ahead.departures[0].goes_ms == START_MS + 29_001 + 120_001
    assert ahead.points[1].size == pytest.approx(2 * size, rel=0.05)
    idle = forecast(judged(log_dir, retention_ms="120000"), LATER, 600_000, 10)
    assert {point.size for point in idle.points} == {0}
