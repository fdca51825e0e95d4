"""One log of a report: the facts that `verify` gathers and the numbers of `stats`, in one walk."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkatool.engine.files.source import AnySource
from kafkatool.engine.jobs.survey import Split
from kafkatool.engine.stats.facts import Stats
from kafkatool.engine.verify.columns import ColumnsWalk
from kafkatool.engine.verify.log_facts import LogFacts
from kafkatool.engine.verify.walk import LogJob
from kafkatool.format.columns import BatchColumns


@dataclass(slots=True)
class WalkedFacts(LogFacts):
    """The facts of `verify`, and what the good batches come to."""

    stats: Stats = field(default_factory=Stats)


@dataclass(frozen=True, slots=True)
class WalkedJob(LogJob):
    """What to check of one log; times after `now_ms` are in the future."""

    now_ms: int = 0

    def begin(self, position: int) -> LogFacts:
        return WalkedFacts(start=position, stop=position)

    def walk(self, split: Split, source: AnySource, before: LogFacts | None) -> LogFacts:
        return _ReportWalk(self, split, source, before).run()

    def merge(self, a: LogFacts, b: LogFacts) -> LogFacts | None:
        assert isinstance(a, WalkedFacts)
        assert isinstance(b, WalkedFacts)
        if a.failure or a.vanished or a.changed:
            return a
        stats = a.stats
        both = LogJob.merge(self, a, b)
        if both is None:
            return None
        assert isinstance(both, WalkedFacts)
        stats.join(b.stats, follows=True)
        both.stats = stats
        return both


class _ReportWalk(ColumnsWalk):
    def __init__(self, job: WalkedJob, split: Split, source: AnySource, before: LogFacts | None) -> None:
        super().__init__(job, split, source, before)
        assert isinstance(self.facts, WalkedFacts)
        self._stats, self._now_ms = self.facts.stats, job.now_ms

    def take(self, columns: BatchColumns) -> None:
        self._stats.add(columns, self._now_ms, seed=0, file=0)
