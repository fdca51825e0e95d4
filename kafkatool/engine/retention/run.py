"""Run the retention check over log directories as events: deletions, purges and forecasts."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kafkatool.engine.cluster.effective_settings import Sources, TopicSettingsFound
from kafkatool.engine.cluster.metadata_end import OldMetadata
from kafkatool.engine.cluster.remote_copies import RemoteCopies
from kafkatool.engine.cluster.settings_request import SettingsRequest
from kafkatool.engine.directory.selection import Home, NamedPartition, Selection
from kafkatool.engine.files.source import Guest
from kafkatool.engine.jobs.events import Caution, Failure, Note
from kafkatool.engine.jobs.in_order import in_order
from kafkatool.engine.jobs.worker_pool import Workers
from kafkatool.engine.plan.evidence import Evidence, gather_evidence
from kafkatool.engine.plan.leftovers import leftovers_named
from kafkatool.engine.plan.steps import Applying, Plan
from kafkatool.engine.retention.deletion import plan_deletion, plan_purge, refuse_guesses
from kafkatool.engine.retention.forecast import Forecast, forecast
from kafkatool.engine.retention.free import Way, ways_to_free
from kafkatool.engine.retention.held import held_back
from kafkatool.engine.retention.logs import JudgedLog, JudgeRequest, RetentionRequest, copied_of, judge_one
from kafkatool.errors import KafkatoolError, UsageError

STEPS = 24
"""Number of steps in a forecast."""
_MOST_WAYS = 10


class UnjudgedLog(NamedTuple):
    """A log with segments whose verdict is unknown: they stay, and are reported."""

    judged: JudgedLog


class VerdictsFound(NamedTuple):
    """The verdicts on all logs of a directory."""

    log_dir: str
    judged: list[JudgedLog]

    @property
    def unknown(self) -> int:
        return sum(one.unknown for one in self.judged)


class DeletionPlanned(NamedTuple):
    """The plan that deletes expired segments from a directory; `unknown` segments stay."""

    plan: Plan
    unknown: int


class WaysFound(NamedTuple):
    """Ways to free the wanted number of bytes."""

    wanted: int
    ways: list[Way]
    waits: dict[str | None, int]
    """Per topic: how long until its brokers have run the retention check and unlinked the files."""

    @property
    def most(self) -> int:
        return max((sum(one.freed for one in way) for way in self.ways), default=0)


JudgingEvent = Note | Failure | TopicSettingsFound | OldMetadata | UnjudgedLog
DeletionEvent = JudgingEvent | Caution | VerdictsFound | DeletionPlanned


@dataclass(slots=True)
class RetentionRun:
    """Judges the logs that were found; `how` says how its plans are applied."""

    found: Selection
    settings: SettingsRequest
    judging: RetentionRequest
    how: Applying
    is_applied: bool
    guest: Guest
    _copies: RemoteCopies = field(init=False)

    def __post_init__(self) -> None:
        log_dirs = [home.log_dir for home in self.found.homes]
        paths, at_log_end = [*self.settings.named, self.settings.config or ""], self.judging.at_log_end
        self._copies = RemoteCopies(log_dirs, paths, self.guest, at_log_end=at_log_end)

    def delete(
        self, pool: Workers, advance: Callable[[int], None], move_to: str | None
    ) -> Generator[DeletionEvent, None, None]:
        """Plan the deletions in each directory. Raises Refused if a verdict rests on a guess."""
        for home in self.found.homes:
            evidence = yield from self._evidence(home)
            judged = yield from self._judge(home, pool, advance)
            verdicts = VerdictsFound(home.path, judged)
            yield verdicts
            if self.is_applied:
                refuse_guesses(judged)
            plan = plan_deletion(home.path, judged, self.guest, self.how.now_ms, move_to)
            yield DeletionPlanned(replace(plan, evidence=evidence), verdicts.unknown)

    def purge(self) -> Generator[Caution | Plan, None, None]:
        """Plan to unlink the files that were marked as deleted long enough ago."""
        for home in self.found.homes:
            sources = self._sources(home)
            delays = [
                (one.partition, sources.of(one.partition.topic).config.number("file.delete.delay.ms"))
                for one in home.partitions
            ]
            plan = plan_purge(home.path, delays, self.judging.now_ms)
            evidence = yield from self._evidence(home)
            yield replace(plan, evidence=evidence)

    def forecast(
        self, pool: Workers, advance: Callable[[int], None], duration_ms: int
    ) -> Generator[JudgingEvent | Forecast, None, None]:
        """Forecast the deletions within `duration_ms`, which is at least STEPS."""
        judged = yield from self._everything(pool, advance)
        yield forecast(judged, self.judging.now_ms, duration_ms, STEPS)

    def free(
        self, pool: Workers, advance: Callable[[int], None], wanted: int
    ) -> Generator[JudgingEvent | WaysFound, None, None]:
        """Find ways to free `wanted` bytes: what is held back first, then the smallest setting changes."""
        judged = yield from self._everything(pool, advance)
        now_ms = self.judging.now_ms
        ways = ways_to_free(judged, held_back(judged, now_ms, self.guest), wanted, now_ms)
        waits = {one.partition.topic: one.check_ms + one.delay_ms for one in judged}
        yield WaysFound(wanted, ways[:_MOST_WAYS], waits)

    def _everything(
        self, pool: Workers, advance: Callable[[int], None]
    ) -> Generator[JudgingEvent, None, list[JudgedLog]]:
        judged = []
        for home in self.found.homes:
            judged += yield from self._judge(home, pool, advance)
        return judged

    def _sources(self, home: Home) -> Sources:
        return self.settings.sources(home, self.found, self.guest)

    def _evidence(self, home: Home) -> Generator[Caution, None, Evidence]:
        meant = [one.partition for one in home.partitions]
        paths = [one.path for one in meant]
        yield from leftovers_named(home.path, paths, self.how, is_applied=self.is_applied)
        return gather_evidence(home.log_dir, meant, with_content=self.is_applied)

    def _judge(
        self, home: Home, pool: Workers, advance: Callable[[int], None]
    ) -> Generator[JudgingEvent, None, list[JudgedLog]]:
        judged = []
        sources, guest = self._sources(home), self.guest.one_of(pool.count)
        asks = [self._ask(home, one, sources, guest) for one in home.partitions]
        for ask, answer in in_order(pool, judge_one, asks):
            try:
                judged.append(answer.result())
            except UsageError:
                raise
            except (FileNotFoundError, KafkatoolError) as error:
                yield Failure(f"{ask.path}: {error}; left as it is")
            advance(sum(one.log.size for one in ask.partition.live_segments if one.log))
        yield from _settings_of([one for one in judged if one.is_asked], sources)
        for one in judged:
            if one.unknown:
                yield UnjudgedLog(one)
        return judged

    def _ask(self, home: Home, named: NamedPartition, sources: Sources, guest: Guest) -> JudgeRequest:
        partition, log_dir = named.partition, home.log_dir
        is_given = self.judging.remote_offset is not None
        copied = None if is_given else copied_of(partition, log_dir, sources, self._copies)
        return JudgeRequest(partition, log_dir, sources, self.judging, guest, copied)


def _settings_of(judged: Sequence[JudgedLog], sources: Sources) -> Iterator[JudgingEvent]:
    """Yield the settings used for the verdicts, and which of them are uncertain."""
    for topic, one in {one.partition.topic: one for one in judged}.items():
        yield TopicSettingsFound(topic, list(one.decisive))
        if one.settings.ignored:
            yield Note(f"{topic}: set, but not known here: {', '.join(one.settings.ignored)}")
    assumed = [one.partition.directory for one in judged if one.watermark_is_assumed]
    if assumed:
        names = ", ".join(assumed[:3]) + (f" and {len(assumed) - 3} more" if len(assumed) > 3 else "")
        yield Note(f"no high watermark for {names}: the end of the log is used instead")
    topics = [one.partition.topic for one in judged if not all(it.is_certain for it in one.decisive)]
    if sources.metadata_end is not None and topics:
        yield OldMetadata(sources.metadata_end, topics)
