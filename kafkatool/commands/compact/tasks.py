"""`compact` on many machines: a partition a task, and a task a part of its keys where these do not fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from kafkatool.commands.compact.telling import CompactRequest
from kafkatool.commands.screen.recorded_talk import RecordedRows, RecordedTalk
from kafkatool.engine.compaction.key_room import KeyRoom, KeysDoNotFit
from kafkatool.engine.compaction.map_in_parts import Parting
from kafkatool.engine.directory.selection import Home
from kafkatool.engine.jobs.in_order import Steps, results
from kafkatool.engine.jobs.worker_pool import Workers
from kafkatool.errors import ExitCode, KafkatoolError


class CompactTold(NamedTuple):
    """What was said and written of one partition, and what came of it."""

    talk: RecordedTalk
    written: RecordedRows
    code: ExitCode


class CompactWork(Protocol):
    """Whoever cleans one."""

    def told_of(self, home: Home, one: CompactRequest, room: KeyRoom) -> CompactTold:
        """Raises KeysDoNotFit."""


@dataclass(frozen=True, slots=True)
class CompactPartition:
    """One partition to clean, wherever that is done."""

    work: CompactWork
    home: Home
    one: CompactRequest
    room: KeyRoom

    @property
    def path(self) -> str:
        return self.one.named.partition.path

    @property
    def bytes_to_read(self) -> int:
        return sum(segment.size for segment in self.one.named.partition.live_segments)


def clean_partition(ask: CompactPartition) -> CompactTold | Parting:
    """What came of it, or which keys do not fit where this runs."""
    try:
        return ask.work.told_of(ask.home, ask.one, ask.room)
    except KeysDoNotFit as error:
        return error.parting


def clean_on(pool: Workers, ask: CompactPartition) -> Steps[CompactTold]:
    """One task while its keys fit; else one for each part of them, and one that has these for a map."""
    ask = replace(ask, room=replace(ask.room, workers=None))
    [told] = yield from results([pool.submit(clean_partition, ask)])
    if not isinstance(told, Parting):
        return told
    try:
        room = replace(ask.room, in_parts=(yield from told.steps(pool)))
    except (FileNotFoundError, KafkatoolError):
        room = replace(ask.room, workers=Workers())  # alone it meets the same, and says where
    [told] = yield from results([pool.submit(clean_partition, replace(ask, room=room))])
    assert isinstance(told, CompactTold)
    return told
