"""Run the cleaner over many partitions, in this process or on a pool: the same events in the same order.

On a pool each partition is a task; if its keys do not fit in memory, each part of them is a task too.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace

from kafkatool.engine.cluster.effective_settings import TopicSettingsFound
from kafkatool.engine.cluster.metadata_end import OldMetadata
from kafkatool.engine.compaction.broker_cleaner import OF_BROKERS
from kafkatool.engine.compaction.key_room import KeyRoom, KeysDoNotFit
from kafkatool.engine.compaction.map_in_parts import Parting
from kafkatool.engine.compaction.partition_run import CompactionRequest, PartitionCompaction, PartitionEvent
from kafkatool.engine.directory.log_dir import PartitionState
from kafkatool.engine.directory.selection import Home, Selection
from kafkatool.engine.files.lock import refuse_if_in_use
from kafkatool.engine.files.source import Guest
from kafkatool.engine.jobs.events import Failure, Note
from kafkatool.engine.jobs.in_order import Steps, results, side_by_side
from kafkatool.engine.jobs.worker_pool import Workers
from kafkatool.engine.plan.leftovers import leftovers_named
from kafkatool.engine.transactions.verdicts import TransactionVerdicts
from kafkatool.errors import KafkatoolError, Refused, UsageError

# Settings that must be certain before anything is changed.
DECISIVE = (
    *("cleanup.policy", "delete.retention.ms", "min.compaction.lag.ms"),
    *("segment.bytes", "segment.index.bytes", "index.interval.bytes"),
)
_TOLD = (*DECISIVE, "max.compaction.lag.ms", "min.cleanable.dirty.ratio")


CompactionEvent = PartitionEvent | TopicSettingsFound | OldMetadata


def compact_partitions(
    found: Selection, request: CompactionRequest, guest: Guest, pool: Workers
) -> Generator[CompactionEvent, None, None]:
    """Clean the compacted partitions. Raises UsageError, and Refused before anything is read or written."""
    paths = [*request.settings.named, request.settings.config or ""]
    verdicts = TransactionVerdicts([home.log_dir for home in found.homes], paths, guest, request.at_ms)
    run = _CompactionRun(found, request, guest.one_of(pool.count), verdicts)
    asked = []
    for home in found.homes:
        tasks = yield from run.tasks_of(home)
        asked.append((home, tasks))
    for home, tasks in asked:
        looked_at = [named.partition.path for named in home.partitions]
        yield from leftovers_named(home.path, looked_at, request.how, is_applied=request.is_applied)
        yield from run.clean(tasks, pool)


class _CompactionRun:
    def __init__(
        self, found: Selection, request: CompactionRequest, guest: Guest, verdicts: TransactionVerdicts
    ) -> None:
        self._found, self._request, self._guest, self._verdicts = found, request, guest, verdicts
        self._room = KeyRoom(request.memory, is_all_counted=request.shows_passes)

    def tasks_of(self, home: Home) -> Generator[CompactionEvent, None, list[PartitionCompaction]]:
        """Return a task per compacted partition of a directory. Raises Refused if one must not change."""
        sources = self._request.settings.sources(home, self._found, self._guest)
        tasks = []
        for named in home.partitions:
            partition = named.partition
            if partition.state is not PartitionState.ACTIVE:
                continue
            try:
                settings = sources.of(partition.topic)
            except UsageError:
                raise
            except KafkatoolError as error:
                yield Failure(f"{partition.path}: {error}; left as it is")
                continue
            if not settings.config.is_compacted:
                yield Note(f"{partition.directory}: is not compacted (cleanup.policy)")
                continue
            brokers = {name: sources.broker(name) for name in OF_BROKERS}
            what = (self._request, home.log_dir, named, settings, brokers)
            tasks.append(PartitionCompaction(*what, self._guest, self._verdicts, self._room))
        if self._request.is_applied and tasks:
            self._refuse(home, tasks)
        topics = [task.settings.topic for task in tasks if task.settings.uncertain(DECISIVE)]
        if sources.metadata_end is not None and topics:
            yield OldMetadata(sources.metadata_end, topics)
        return tasks

    def _refuse(self, home: Home, tasks: Sequence[PartitionCompaction]) -> None:
        how = self._request.how
        refuse_if_in_use(home.path, offline=how.offline, now_ms=how.now_ms)
        for task in tasks:
            _refuse_guesses(task)

    def clean(self, tasks: Sequence[PartitionCompaction], pool: Workers) -> Iterator[CompactionEvent]:
        """Yield the events of each partition, after the settings of its topic."""
        elsewhere = side_by_side(pool, [_clean_on(pool, task) for task in tasks]) if pool.count > 1 else None
        told: set[str | None] = set()
        for task in tasks:
            topic = task.settings.topic
            if topic not in told and self._request.shows_passes:
                settings = [*(task.settings.settings[name] for name in _TOLD), *task.brokers.values()]
                yield TopicSettingsFound(topic, settings)
                told.add(topic)
            yield from task.run() if elsewhere is None else next(elsewhere)


def _refuse_guesses(task: PartitionCompaction) -> None:
    """Raise Refused if a setting or the high watermark is only a guess: no guess removes data."""
    name, settings = task.named.partition.directory, task.settings
    if guessed := settings.uncertain(DECISIVE):
        names = ", ".join(one.name for one in guessed)
        if settings.metadata_end is not None:
            raise Refused(f"{name}: {names}: {settings.metadata_end.reason}")
        raise Refused(f"{name}: {names}: only a default is known; give --set or --config")
    if task.watermark[1]:
        raise Refused(f"{name}: the high watermark is not known; give --high-watermark N")


def clean_partition(task: PartitionCompaction) -> list[PartitionEvent] | Parting:
    """Return the task's events, or how to part its keys if they do not fit in this process."""
    try:
        return list(task.run())
    except KeysDoNotFit as error:
        return error.parting


def _clean_on(pool: Workers, task: PartitionCompaction) -> Steps[list[PartitionEvent]]:
    """Submit one task if its keys fit; else one per part of the keys, then one that uses these as its map."""
    task = replace(task, room=replace(task.room, workers=None))
    [found] = yield from results([pool.submit(clean_partition, task)])
    if not isinstance(found, Parting):
        return found
    try:
        room = replace(task.room, in_parts=(yield from found.steps(pool)))
    except (FileNotFoundError, KafkatoolError):
        room = replace(task.room, workers=Workers())  # alone it fails in the same way, and reports where
    [found] = yield from results([pool.submit(clean_partition, replace(task, room=room))])
    assert not isinstance(found, Parting)
    return found
