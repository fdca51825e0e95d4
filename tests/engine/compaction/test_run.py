"""A run of the cleaner yields the same events wherever its partitions are cleaned."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from kafkatool.engine.cluster.effective_settings import TopicSettingsFound
from kafkatool.engine.cluster.settings_request import SettingsRequest
from kafkatool.engine.compaction.key_room import BYTES_A_KEY, FEWEST_KEYS
from kafkatool.engine.compaction.partition_run import CompactionRequest, PassesRun, RangeFound, SwapPlanned
from kafkatool.engine.compaction.run import CompactionEvent, compact_partitions
from kafkatool.engine.directory.selection import Selection
from kafkatool.engine.directory.targets import expand
from kafkatool.engine.files.source import Guest
from kafkatool.engine.jobs.events import Caution, Failure, Note
from kafkatool.engine.jobs.worker_pool import workers
from kafkatool.engine.plan.steps import Applying
from kafkatool.errors import Refused
from tests.engine.compaction_logs import CleanLog

COMPACT = ("cleanup.policy=compact", "min.cleanable.dirty.ratio=0")


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    for number in range(3):
        log = CleanLog(tmp_path / "logs" / f"users-{number}")
        for at in range(FEWEST_KEYS // 100 * 2):
            log.put(*(f"{number}-{at}-{key}=1" for key in range(100)))
        log.roll().put("a=2").close()
    (tmp_path / "logs" / "users-1" / f"{0:020d}.log.cleaned").write_bytes(b"")
    return tmp_path / "logs"


def events(log_dir: Path, jobs: int, request: CompactionRequest) -> list[CompactionEvent]:
    guest = Guest()
    found = Selection(expand([str(log_dir)]).targets, guest)
    with workers(jobs) as pool:
        return list(compact_partitions(found, request, guest, pool))


def request(**asked: object) -> CompactionRequest:
    settings = SettingsRequest((), COMPACT)
    return CompactionRequest(settings, Applying(10_000), at_ms=10_000, **asked)  # type: ignore[arg-type]


def test_a_run_tells_settings_then_partition_by_partition(log_dir: Path) -> None:
    kinds = [type(one) for one in events(log_dir, 1, request())]
    cleaned = [Note, RangeFound, PassesRun]
    assert kinds == [TopicSettingsFound, *cleaned, Failure, *cleaned]


@pytest.mark.parametrize("memory", [1 << 20, FEWEST_KEYS * BYTES_A_KEY])
def test_on_a_pool_the_events_are_the_same(log_dir: Path, memory: int) -> None:
    """Also where the keys of a partition do not fit and are taken in parts."""

    def facts(jobs: int) -> list[object]:
        found = events(log_dir, jobs, request(memory=memory))
        passes = [one.done.passes[0].cleaned for one in found if isinstance(one, PassesRun)]
        counted = [(one.counts, one.end_offset, one.offsets.key_count) for one in passes]
        return [*(one for one in found if not isinstance(one, PassesRun)), *counted]

    alone = facts(1)
    assert len(alone) == 8
    assert facts(3) == alone


def test_what_is_told_of_a_pass_holds_no_keys(log_dir: Path) -> None:
    """A map of them may take most of the memory; it is over when its pass is."""
    found = next(one for one in events(log_dir, 1, request()) if isinstance(one, PassesRun))
    [done] = found.done.passes
    assert done.cleaned.offsets.key_count == 2 * FEWEST_KEYS
    assert len(done.cleaned.offsets.keys) == 0
    assert len(pickle.dumps(found)) < 20_000


def test_what_is_guessed_is_refused_before_anything_is_read(log_dir: Path) -> None:
    with pytest.raises(Refused, match="only a default is known"):
        events(log_dir, 1, request(is_applied=True))


def test_cleaned_segments_are_there_until_the_next_event_is_asked_for(log_dir: Path) -> None:
    (log_dir / "users-1" / f"{0:020d}.log.cleaned").unlink()
    sizes = ("segment.bytes=1048576", "segment.index.bytes=10485760", "index.interval.bytes=4096")
    times = ("delete.retention.ms=1000", "min.compaction.lag.ms=0")
    settings = SettingsRequest((), (*COMPACT, *times, *sizes))
    how = CompactionRequest(settings, Applying(10_000, offline=True), is_applied=True, watermark=2001)
    guest = Guest()
    found = Selection(expand([str(log_dir / "users-0")]).targets, guest)
    with workers(1) as pool:
        for event in compact_partitions(found, how, guest, pool):
            if isinstance(event, SwapPlanned):
                content = event.plan.steps[0].content
                assert Path(content.path).exists()  # type: ignore[union-attr]
            else:
                assert not isinstance(event, Caution | Failure)
    assert not Path(content.path).exists()  # type: ignore[union-attr]
