"""Check a log directory's own files: its owner, its checkpoints, and files that should not be there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.broker.checkpoint_effects import CHECKPOINTS, Effect, consequence_of
from kafkatool.engine.broker.owner_checks import (
    OwnerProblem,
    holds_metadata,
    owner_file_problem,
    same_directory_ids,
    same_partitions,
)
from kafkatool.engine.directory.log_dir import FileEntry, LogDir
from kafkatool.engine.files.source import Guest, read_small_file
from kafkatool.engine.verify.side_files import state_damage
from kafkatool.errors import FormatError, KafkatoolError
from kafkatool.format import kinds
from kafkatool.format.names import FileState, TopicPartition
from kafkatool.format.state.checkpoint import read_offset_checkpoint

_LEAVES_OUT = "a broker takes the log directory offline, or does not start"
_NO_START = "a broker does not start with it"


class DirProblem(NamedTuple):
    """Damage to a file or directory, with its path."""

    path: str
    damage: Damage


def dir_problems(log_dir: LogDir, guest: Guest) -> Iterator[DirProblem]:
    """Yield what is wrong at the top of one log directory."""
    for path in log_dir.unknown_directories:
        message = "not Kafka's: a broker does not start with this directory here"
        yield DirProblem(
            path, _no_start(FindingClass.BAD_METADATA, message, "a partition", os.path.basename(path))
        )
    for entry in log_dir.files:
        if entry.state is FileState.LIVE and entry.kind.read is not None:
            damage = file_problem(entry, guest)
            if damage is not None:
                yield DirProblem(entry.path, damage)
    # An unreadable owner file was reported above; this finds a missing or incomplete one.
    owner = owner_file_problem(log_dir, guest, is_kraft=holds_metadata(log_dir))
    if owner is not None and owner.effect is Effect.REFUSE:
        yield _of_owner(owner, FindingClass.BAD_METADATA, "an owner", "none")


def between_dirs(log_dirs: list[LogDir]) -> Iterator[DirProblem]:
    """Yield what log directories of one broker must not have: two owners, or the same partition twice."""
    owners = [(log_dir, log_dir.meta) for log_dir in log_dirs if log_dir.meta is not None]
    for log_dir, meta in owners[1:]:
        first = owners[0][1]
        if (meta.cluster_id, meta.node_id) != (first.cluster_id, first.node_id):
            path = os.path.join(log_dir.path, kinds.META_PROPERTIES.name)
            message = f"its owner is not that of {owners[0][0].path}: one broker cannot start with both"
            expected = f"cluster {first.cluster_id}, node {first.node_id}"
            found = f"cluster {meta.cluster_id}, node {meta.node_id}"
            yield DirProblem(path, _no_start(FindingClass.BAD_METADATA, message, expected, found))
            return
    for problem in same_directory_ids(log_dirs):
        yield _of_owner(problem, FindingClass.BAD_METADATA, "an id of its own", "that of another directory")
    for problem in same_partitions(log_dirs):
        yield _of_owner(problem, FindingClass.OVERLAP, "one directory", "two")


def _of_owner(problem: OwnerProblem, kind: FindingClass, expected: str, found: str) -> DirProblem:
    return DirProblem(problem.path, _no_start(kind, problem.message, expected, found))


def file_problem(entry: FileEntry, guest: Guest) -> Damage | None:
    """Return why a broker could not read a small file, or None. Raises KafkatoolError if we cannot."""
    assert entry.kind.read is not None
    try:
        data = read_small_file(entry.path, guest)
        entry.kind.read(data)
    except FileNotFoundError:
        return None
    except FormatError as error:
        kind, severity, effect = _judged(entry.kind, data)
        message = f"{error}: {effect}"
        return state_damage(
            kind, message, error.expected, error.found, position=error.at, end=len(data), severity=severity
        )
    return None


def _judged(kind: kinds.FileKind, data: bytes) -> tuple[FindingClass, Severity, str]:
    """Return the finding class, severity and effect on a start of a malformed file."""
    if kind in CHECKPOINTS:
        consequence = consequence_of(kind, data)
        severity = Severity.DEGRADED if consequence.effect is Effect.NOTE else Severity.NO_START
        return FindingClass.BAD_CHECKPOINT, severity, consequence.message
    effect = _NO_START if kind is kinds.QUORUM_STATE else _LEAVES_OUT
    return FindingClass.BAD_METADATA, Severity.NO_START, effect


def read_checkpoint(
    files: Iterable[FileEntry], kind: kinds.FileKind, guest: Guest
) -> dict[TopicPartition, int]:
    """Read an offset checkpoint; empty if it is missing or damaged, which is reported elsewhere."""
    for entry in files:
        if entry.kind is kind and entry.state is FileState.LIVE:
            try:
                found = read_offset_checkpoint(read_small_file(entry.path, guest))
            except (FileNotFoundError, KafkatoolError):
                return {}
            return {(line.topic, line.partition): line.offset for line in found}
    return {}


def checkpoint_problems(
    place: TopicPartition, log_dir: LogDir, cleaner: dict[TopicPartition, int], log_end: int
) -> Iterator[DirProblem]:
    """Yield checkpoints that are ahead of a partition's log, which ends at `log_end`."""

    def ahead(
        kind: kinds.FileKind, offset: int | None, message: str, severity: Severity
    ) -> Iterator[DirProblem]:
        if offset is not None and offset > log_end:
            name = f"{place[0]}-{place[1]}"
            damage = state_damage(
                FindingClass.BAD_CHECKPOINT,
                f"{name}: {message}",
                f"{log_end} at most",
                offset,
                severity=severity,
            )
            yield DirProblem(os.path.join(log_dir.path, kind.name), damage)

    yield from ahead(
        kinds.RECOVERY_POINTS,
        log_dir.recovery_points.get(place),
        "records were flushed up to there; they are gone, or were truncated just before a crash",
        Severity.DEGRADED,
    )
    yield from ahead(
        kinds.HIGH_WATERMARKS,
        log_dir.high_watermarks.get(place),
        "records were committed up to there; this copy does not have them",
        Severity.DEGRADED,
    )
    yield from ahead(
        kinds.LOG_STARTS,
        log_dir.log_starts.get(place),
        "the log ends before it starts: a broker deletes all of it",
        Severity.NO_START,
    )
    yield from ahead(
        kinds.CLEANER_OFFSETS,
        cleaner.get(place),
        "cleaning was there already: a broker begins again from the start",
        Severity.DEGRADED,
    )


def _no_start(kind: FindingClass, message: str, expected: object, found: object) -> Damage:
    return state_damage(kind, message, expected, found, severity=Severity.NO_START)
