"""Hold the keys of a pass: all in memory, in parts, or in parts made elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kafkatool.engine.compaction.cleanable_log import CleanableLog
from kafkatool.engine.compaction.dirty_range import DirtyRange
from kafkatool.engine.compaction.map_in_parts import InParts, Parting, log_changed
from kafkatool.engine.compaction.offset_map import OffsetMap, build_offset_map
from kafkatool.engine.files.source import Guest
from kafkatool.engine.jobs.in_order import side_by_side
from kafkatool.engine.jobs.worker_pool import Workers
from kafkatool.format.java_text import LONG_MAX

BYTES_A_KEY = 40
FEWEST_KEYS = 1000
"""Less memory than these need is not worth the reading."""


class KeysDoNotFit(Exception):
    """There are more keys than fit, and no workers here to take them in parts."""

    def __init__(self, parting: Parting) -> None:
        super().__init__(f"more than {parting.room} keys")
        self.parting = parting


@dataclass(frozen=True, slots=True)
class KeyRoom:
    """The memory for the keys of a pass."""

    memory: int | None = None
    """Bytes they may take; None: unlimited."""
    workers: Workers | None = field(default_factory=Workers)
    """Workers that take keys in parts if that is too little; None: none here."""
    in_parts: InParts | None = None
    """The result, if the keys were taken in parts before."""
    is_all_counted: bool = False
    """Whether to count all keys of a dirty range, even those that do not fit into a broker's map."""

    @property
    def of_later_passes(self) -> KeyRoom:
        """Room for later passes: they read what was written here, so only this host's workers can help."""
        return KeyRoom(self.memory, self.workers or Workers())

    def build(self, log: CleanableLog, dirty: DirtyRange, capacity: int, guest: Guest) -> OffsetMap:
        """Build a map of at most so many keys. Raises CleanerStops, KeysDoNotFit."""
        if self.in_parts is not None and self.in_parts.dirty != dirty:
            raise log_changed()
        room = LONG_MAX - 1 if self.memory is None else max(FEWEST_KEYS, self.memory // BYTES_A_KEY)
        keys = Parting(log, dirty, guest, room, capacity)
        offsets = self._build(keys, capacity)
        if not offsets.is_full:
            offsets.dirty_keys = offsets.key_count
        elif not self.is_all_counted:
            offsets.dirty_keys = None
        elif offsets.dirty_keys is None:
            offsets.dirty_keys = self._count_all(replace(keys, capacity=None))
        return offsets

    def _build(self, keys: Parting, capacity: int) -> OffsetMap:
        if self.in_parts is not None and self.in_parts.offsets is not None:
            return self.in_parts.offsets
        # A map is full when a key comes after the last one fits, even a known key: so allow one more.
        offsets = build_offset_map(keys.log, keys.dirty, min(capacity, keys.room + 1), keys.guest)
        if not offsets.is_full or keys.room >= capacity:
            offsets.capacity = capacity
            return offsets
        del offsets
        made = self._take_in_parts(keys).offsets
        assert made is not None
        return made

    def _count_all(self, keys: Parting) -> int:
        if self.in_parts is not None:
            return self.in_parts.dirty_keys
        offsets = build_offset_map(keys.log, keys.dirty, keys.room + 1, keys.guest)
        if not offsets.is_full:
            return offsets.key_count
        del offsets
        return self._take_in_parts(keys).dirty_keys

    def _take_in_parts(self, keys: Parting) -> InParts:
        if self.workers is None:
            raise KeysDoNotFit(keys)
        return next(side_by_side(self.workers, [keys.steps(self.workers)]))
