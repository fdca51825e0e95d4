"""Check what in a whole log directory keeps a broker from starting, or from knowing where to begin."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkatool.engine.batches.damage import Damage
from kafkatool.engine.batches.scan import Batch, scan
from kafkatool.engine.broker.checkpoint_effects import OFFLINE, Consequence, Effect, consequence_of
from kafkatool.engine.broker.owner_checks import holds_metadata, owner_problems
from kafkatool.engine.cluster.view import formatted_level
from kafkatool.engine.directory.log_dir import LogDir, Partition
from kafkatool.engine.files.source import Guest, open_source, read_whole_file
from kafkatool.errors import FormatError, KafkatoolError
from kafkatool.format import kinds
from kafkatool.format.names import TopicPartition
from kafkatool.format.release import Release
from kafkatool.format.state.checkpoint import read_offset_checkpoint
from kafkatool.format.state.quorum_state import read_quorum_state

Offsets = dict[TopicPartition, int]

_BOOTSTRAP = "bootstrap.checkpoint"
_FIRST_SNAPSHOT = "00000000000000000000-0000000000.checkpoint"
# The highest metadata.version that a release accepts in its first snapshot; 4.3 accepts any.
_HIGHEST_LEVELS = {Release.V3_9: 21, Release.V4_0: 26, Release.V4_1: 29, Release.V4_2: 30}
_VERSION_RECORD = b"metadata.version"


class StartProblem(NamedTuple):
    """A problem at the top of a log directory, and how far a start gets with it."""

    path: str
    effect: Effect
    message: str
    other: str | None = None
    """Another copy of the same partition."""

    @property
    def sentence(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(slots=True)
class StartChecks:
    """Reasons not to start, things to know, and the offsets that the broker begins with."""

    has_metadata: bool = False
    """A node stops if the directory with its metadata log goes offline."""
    problems: list[StartProblem] = field(default_factory=list)
    recovery_points: Offsets = field(default_factory=dict)
    log_starts: Offsets = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    """Facts that change nothing for the known broker of the directory."""

    @property
    def refusals(self) -> list[str]:
        """Why a broker does not start, or serves nothing."""
        return self._of(Effect.REFUSE, Effect.LEADERLESS)

    @property
    def offline(self) -> list[str]:
        """Why the directory goes offline; a broker without another one does not start."""
        return self._of(Effect.OFFLINE)

    @property
    def notes(self) -> list[str]:
        return self._of(Effect.NOTE)

    @property
    def is_in_vain(self) -> bool:
        """Whether the broker never gets to load the partitions, or not for long."""
        return bool(self.refusals or self.offline)

    def tell(self, effect: Effect, path: str, message: str, other: str | None = None) -> None:
        if effect is Effect.OFFLINE and self.has_metadata:
            effect = Effect.REFUSE
        self.problems.append(StartProblem(path, effect, message, other))

    def _of(self, *effects: Effect) -> list[str]:
        return [problem.sentence for problem in self.problems if problem.effect in effects]


def check_start(
    log_dir: LogDir,
    guest: Guest,
    siblings: list[LogDir] | None = None,
    node_id: int | None = None,
    release: Release | None = None,
) -> StartChecks:
    """Check a log directory as a broker does before it loads any partition.

    `siblings` are all log directories of the broker, this one among them. `node_id` is the configured one,
    and `release` the one it registered with, if known.
    """
    found = StartChecks(holds_metadata(log_dir))
    for problem in owner_problems(siblings or [log_dir], guest, node_id):
        if problem.log_dir == log_dir.path:
            found.tell(problem.effect, problem.path, problem.message, problem.other)
    found.recovery_points = _offsets(found, log_dir, kinds.RECOVERY_POINTS, guest)
    found.log_starts = _offsets(found, log_dir, kinds.LOG_STARTS, guest)
    for kind in (kinds.HIGH_WATERMARKS, kinds.CLEANER_OFFSETS):
        _offsets(found, log_dir, kind, guest)
    for path in log_dir.unknown_directories:
        found.tell(Effect.REFUSE, path, "a directory whose name is no partition's")
    for partition in log_dir.metadata:
        _check_quorum_state(found, partition, guest)
        if not _check_bootstrap(found, log_dir, guest):
            _check_first_snapshot(found, partition, guest, release)
    return found


def _offsets(found: StartChecks, log_dir: LogDir, kind: kinds.FileKind, guest: Guest) -> Offsets:
    path = os.path.join(log_dir.path, kind.name)
    try:
        raw = read_whole_file(path, guest)
    except FileNotFoundError:
        return {}
    except KafkatoolError as error:
        _tell(found, path, str(error).removeprefix(f"{path}: "), OFFLINE)
        return {}
    try:
        entries = read_offset_checkpoint(raw)
    except FormatError as error:
        _tell(found, path, str(error), consequence_of(kind, raw))
        return {}
    return {(entry.topic, entry.partition): entry.offset for entry in entries}


def _tell(found: StartChecks, path: str, problem: str, consequence: Consequence) -> None:
    found.tell(consequence.effect, path, f"{problem}: {consequence.message}")


def _check_quorum_state(found: StartChecks, partition: Partition, guest: Guest) -> None:
    path = os.path.join(partition.path, kinds.QUORUM_STATE.name)
    try:
        state = read_quorum_state(read_whole_file(path, guest))
    except FileNotFoundError:
        return  # it starts over, with the epoch of the log
    except FormatError as error:
        found.tell(Effect.REFUSE, path, f"{error}: a node does not start with it")
    except KafkatoolError as error:
        found.tell(Effect.REFUSE, path, str(error).removeprefix(f"{path}: "))
    else:
        if state.data_version == 0 and state.current_voters is None:
            found.tell(Effect.REFUSE, path, "currentVoters is null: a node does not start with it")


def _check_bootstrap(found: StartChecks, log_dir: LogDir, guest: Guest) -> bool:
    """Check the bootstrap records, which nodes up to 4.3 read at every start; False without the file."""
    path = os.path.join(log_dir.path, _BOOTSTRAP)
    try:
        with open_source(path, guest) as source:
            if any(_says_version(item) for item in scan(source, chain=True)):
                return True
    except FileNotFoundError:
        return False
    except KafkatoolError as error:
        found.tell(Effect.REFUSE, path, str(error).removeprefix(f"{path}: "))
        return True
    found.tell(Effect.REFUSE, path, "says no metadata.version: a node does not start with it")
    return True


def _check_first_snapshot(
    found: StartChecks, partition: Partition, guest: Guest, release: Release | None
) -> None:
    """Check the snapshot with which 4.4 and newer format a node, instead of bootstrap.checkpoint."""
    path = os.path.join(partition.path, _FIRST_SNAPSHOT)
    level = formatted_level(path, guest)
    if level is None:
        return
    text = f"formatted by Kafka 4.4 or newer, with metadata.version {level}"
    too_old = [one for one, highest in _HIGHEST_LEVELS.items() if highest < level]
    if release in too_old:
        found.tell(Effect.REFUSE, path, f"{text}: Kafka {release.label} does not start with it")
    elif too_old:
        found.remarks.append(f"{path}: {text}: Kafka {max(too_old).label} and older do not start with it")
    else:
        found.remarks.append(f"{path}: {text}")


def _says_version(item: Batch | Damage) -> bool:
    return isinstance(item, Batch) and item.is_valid and _VERSION_RECORD in bytes(item.data or b"")
