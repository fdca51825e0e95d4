"""Delete segments as a broker does, and remove files deleted before.

    1  if all segments go: an empty one at the log end offset, with the producer state as of there
    2  the segments, oldest first: every file is renamed to `<name>.deleted`, or moved away
    3  the leader epochs, which then begin with the log

Wherever this stops, a broker loads the rest as a log that begins later. The log start offset needs no
checkpoint: it is where the first segment begins.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from kafkatool.engine.advice.table import Advice
from kafkatool.engine.batches.scan import Batch, scan
from kafkatool.engine.broker.leader_epochs import LeaderEpochs
from kafkatool.engine.broker.producer_state import ProducerStates, state_batch
from kafkatool.engine.directory.log_dir import FileEntry, Partition
from kafkatool.engine.files.source import Guest, open_source, read_small_file
from kafkatool.engine.plan.steps import NewEnd, Plan, Step, purge, remove, rename, write
from kafkatool.engine.retention.logs import JudgedLog
from kafkatool.engine.retention.rules import Decision
from kafkatool.errors import FormatError, Refused
from kafkatool.format import kinds
from kafkatool.format.names import FileState, segment_file
from kafkatool.format.state.checkpoint import read_leader_epochs, write_leader_epochs
from kafkatool.format.state.producer_snapshot import read_snapshot, write_snapshot

COMMAND = "retention"
DELETED = ".deleted"
_MERE_DEFAULTS = "mere defaults, as far as is known here; say with --set or --config what the topic goes by"


def refuse_guesses(judged: Iterable[JudgedLog]) -> None:
    """Raise Refused if segments would be deleted because of something that is merely assumed."""
    for one in judged:
        if not one.outcome.deleted:
            continue
        guessed = [setting for setting in one.decisive if not setting.is_certain]
        if guessed:
            values = ", ".join(f"{setting.name}={setting.text}" for setting in guessed)
            end = one.settings.metadata_end
            why = end.reason if end is not None else _MERE_DEFAULTS
            raise Refused(f"{one.partition.path}: {values}: {why}")
        if one.watermark_is_assumed:
            raise Refused(
                f"{one.partition.path}: its high watermark is not known: --high-watermark N if you know it"
            )
        if one.outcome.rolls_at is not None and one.facts.damage is not None:
            raise Refused(
                f"{one.partition.path}: all of it would go, and where the log goes on is in doubt "
                f"({one.facts.damage}): {Advice.RECOVER(where=one.partition.path)} first"
            )


def plan_deletion(
    log_dir: str, judged: Sequence[JudgedLog], guest: Guest, now_ms: int, move_to: str | None = None
) -> Plan:
    """Plan all deletions in one log directory. Raises KafkatoolError if a file cannot be read."""
    doomed = [one for one in judged if one.outcome.deleted]
    news = tuple(step for one in doomed for step in _new_segment(one, guest, now_ms))
    turns = zip_longest(*(_removals(one, move_to) for one in doomed), fillvalue=())
    removals = [tuple(step for steps in turn for step in steps) for turn in turns]
    epochs = tuple(step for one in doomed for step in _epochs(one, guest))
    stages = tuple(stage for stage in (news, *removals, epochs) if stage)
    ends = tuple(NewEnd(one.partition.path, one.facts.log_end, one.checkpointed_start or 0) for one in doomed)
    directories = tuple(_move_directories(doomed, move_to)) if move_to is not None else ()
    return Plan(COMMAND, log_dir, stages, ends, directories=directories)


def _move_directories(doomed: Sequence[JudgedLog], move_to: str) -> list[str]:
    """Return the directories to create before segments can be moved, outermost first."""
    wanted = [os.path.join(move_to, one.partition.directory) for one in doomed]
    return [move_to, *wanted] if wanted else []


def _removals(one: JudgedLog, move_to: str | None) -> Iterator[tuple[Step, ...]]:
    """Yield the files of each segment, oldest first."""
    for verdict in one.outcome.verdicts:
        if verdict.decision is Decision.DELETE:
            why = f"deleted by {verdict.rule}"
            yield tuple(_removal(one, entry, why, move_to) for entry in one.files_of(verdict.segment))


def _removal(one: JudgedLog, entry: FileEntry, why: str, move_to: str | None) -> Step:
    if move_to is None:
        return rename(entry.path, entry.path + DELETED, why)
    return remove(entry.path, why, os.path.join(move_to, one.partition.directory, entry.name))


def _epochs(one: JudgedLog, guest: Guest) -> Iterator[Step]:
    entry = next((e for e in one.partition.other_files if e.kind is kinds.LEADER_EPOCHS), None)
    if entry is None or entry.state is not FileState.LIVE:
        return
    known = read_leader_epochs(read_small_file(entry.path, guest))
    epochs = LeaderEpochs(known)
    if epochs.truncate_from_start(one.outcome.log_start) and epochs.entries != known:
        yield write(entry.path, write_leader_epochs(epochs.entries), "the log begins later")


def _new_segment(one: JudgedLog, guest: Guest, now_ms: int) -> Iterator[Step]:
    base = one.outcome.rolls_at
    if base is None or len(one.outcome.deleted) < len(one.facts.segments):
        return
    why = "every segment goes: the log goes on here"
    for extension in (".log", ".index", ".timeindex"):
        yield write(os.path.join(one.partition.path, segment_file(base, extension)), b"", why)
    if base not in _snapshots(one.partition):
        states = _producers(one, guest, now_ms)
        path = os.path.join(one.partition.path, segment_file(base, ".snapshot"))
        yield write(path, write_snapshot(states.rows()), "the producers, where the log goes on")


def _snapshots(partition: Partition) -> dict[int, FileEntry]:
    return {
        entry.offset: entry
        for entry in partition.other_files
        if entry.kind is kinds.PRODUCER_SNAPSHOT
        and entry.state is FileState.LIVE
        and entry.offset is not None
    }


def _producers(one: JudgedLog, guest: Guest, now_ms: int) -> ProducerStates:
    """Return the producers at the log end: the newest good snapshot, and the batches after it."""
    states = ProducerStates()
    states.clear(one.facts.log_start)
    for offset, entry in sorted(_snapshots(one.partition).items(), reverse=True):
        try:
            states.load(read_snapshot(read_small_file(entry.path, guest)), offset, now_ms)
            break
        except FormatError:
            continue
    start = states.end_offset
    for segment in one.partition.live_segments:
        if segment.log is None:
            continue
        with open_source(segment.log.path, guest) as source:
            for item in scan(source):
                if isinstance(item, Batch) and item.is_valid and item.header.last_offset >= start:
                    _replay(states, item)
    states.end_offset = one.facts.log_end
    return states


def _replay(states: ProducerStates, batch: Batch) -> None:
    header = batch.header
    if header.producer_id >= 0:
        states.replay(state_batch(header, bytes(batch.data or b"") if header.is_control else b""))


def plan_purge(log_dir: str, partitions: Iterable[tuple[Partition, int]], now_ms: int) -> Plan:
    """Unlink files deleted longer ago than the delay given with each partition, in milliseconds."""
    steps = tuple(
        purge(entry.path, "deleted longer ago than file.delete.delay.ms")
        for partition, delay_ms in partitions
        for entry in partition.files
        if entry.state is FileState.DELETED and now_ms - _renamed_ms(entry) >= delay_ms
    )
    return Plan(COMMAND, log_dir, (steps,) if steps else ())


def _renamed_ms(entry: FileEntry) -> int:
    """Return when a file got its name at the latest: a rename changes only the ctime."""
    try:
        return os.stat(entry.path).st_ctime_ns // 1_000_000
    except OSError:
        return 1 << 62
