"""Mend flipped bits while logs are read: readers get a log with its proven bits flipped back.

The files do not change; only a plan of `recover` writes mended bytes. A log is walked when it is first
opened, and only its new part if it has grown. A flip that `bit_flips` does not prove is left as it is, and so
is one whose batch would not fit between its neighbors.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from kafkatool.engine.batches.bit_flips import LARGEST, MAYBE_FLIPPED, FoundFlip, find_flip
from kafkatool.engine.batches.damage import Damage
from kafkatool.engine.batches.scan import BatchRun, scan_runs
from kafkatool.engine.files.source import FileSource
from kafkatool.format import kinds
from kafkatool.format.batch import HEADER_SIZE, LOG_OVERHEAD

_SEARCHED = 256 << 20
"""Most bytes of damaged batches to search in one log, so that even a fully damaged one takes bounded time."""
_LEAST_COST = 64 << 10


@dataclass(frozen=True, slots=True)
class BatchMend:
    """One flipped bit of one batch; `byte` is counted from the start of the log."""

    path: str
    position: int
    end_position: int
    byte: int
    bit: int
    first_offset: int
    last_offset: int
    odds: float
    proof: str | None
    is_mended: bool
    """False if the odds of a chance match are too high to act on it."""

    @property
    def message(self) -> str:
        """What was done, and how certain it is; without the file name."""
        offsets = f"offset {self.first_offset}"
        if self.last_offset != self.first_offset:
            offsets = f"offsets {self.first_offset} to {self.last_offset}"
        what = f"bit {self.bit} of byte {self.byte} is flipped back: the batch of {offsets} is whole again"
        if not self.is_mended:
            what = (
                f"bit {self.bit} of byte {self.byte} may be flipped, in the batch of {offsets}: left as it is"
            )
        return f"{what}; {self._certainty()}"

    def _certainty(self) -> str:
        odds = f"the odds that its checksum matches by chance are 1 in {round(1 / self.odds)}"
        if not self.is_mended:
            return f"{odds}, and nothing else proves it: compare it with another replica"
        return odds if self.proof is None else f"{odds}, and {self.proof}"


@dataclass(slots=True)
class _Log:
    """What is known about one file."""

    size: int = 0
    mtime_ns: int = 0
    walked_from: int = 0
    """Where a walk continues: at good batches; everything before was checked."""
    tried: set[int] = field(default_factory=set)
    patches: dict[int, int] = field(default_factory=dict)
    mends: list[BatchMend] = field(default_factory=list)
    budget: int = _SEARCHED


Tell = Callable[[BatchMend], None]


class Mender:
    """Mends every log that is opened with it. Threads share it; another process starts with an empty one."""

    def __init__(self, tell: Tell | None = None) -> None:
        self.tell = tell
        self._logs: dict[tuple[int, int], _Log] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[Mender], tuple[()]]:
        return Mender, ()

    def mend(self, source: FileSource) -> None:
        """Walk a log, unless that was done before, and make `source` return the mended bytes."""
        if _is_log(source.name):
            with self._lock:
                source.patches = dict(self._known(source).patches)

    def of(self, source: FileSource) -> list[BatchMend]:
        """Return the flips found in the log of `source`, mended or not."""
        with self._lock:
            return list(self._known(source).mends)

    def _known(self, source: FileSource) -> _Log:
        found = os.fstat(source.fileno())
        size = source.size_hint or 0
        key = (found.st_dev, found.st_ino)
        log = self._logs.get(key)
        if log is None or size < log.size or (size == log.size and found.st_mtime_ns != log.mtime_ns):
            log = self._logs[key] = _Log()
        if size > log.size:
            log.size, log.mtime_ns = size, found.st_mtime_ns
            log.tried.clear()
            source.patches = log.patches
            while self._mend_next(source, log):
                pass
        return log

    def _mend_next(self, source: FileSource, log: _Log) -> bool:
        """Mend the next batch that can be mended; return False if there is none up to the end."""
        for item in scan_runs(source, log.walked_from):
            if not isinstance(item, Damage):
                log.walked_from = (
                    item.position if isinstance(item, BatchRun) or item.is_valid else log.walked_from
                )
            elif item.kind in MAYBE_FLIPPED and item.position not in log.tried:
                log.tried.add(item.position)
                if self._mend(source, log, item):
                    return True
        return False

    def _mend(self, source: FileSource, log: _Log, damage: Damage) -> bool:
        size = _size_to_search(source, damage)
        cost = max(size, _LEAST_COST)
        if cost > log.budget:
            return False
        log.budget -= cost
        available = source.read(damage.position, size)
        is_to_end = damage.position + len(available) == log.size
        found = find_flip(available, is_to_end=is_to_end)
        if found is None or not _fits(found, damage):
            return False
        mend = _placed(found, source.name, damage.position)
        if mend.is_mended:
            log.patches[mend.byte] = available[found.flip.byte] ^ 1 << found.flip.bit
        log.mends.append(mend)
        if self.tell is not None:
            self.tell(mend)
        return mend.is_mended


def _is_log(path: str) -> bool:
    """Whether a file may be a log, by its name; an unknown name counts too."""
    name = os.path.basename(path)
    kept = kinds.parse_kept_name(name)
    return kinds.kind_of(kept.original if kept else name).kind in (kinds.LOG, kinds.UNKNOWN)


def _size_to_search(source: FileSource, damage: Damage) -> int:
    """Return the size of the batch by its own length or up to the next good one, and some of what follows."""
    raw = source.read(damage.position, LOG_OVERHEAD)
    own = int.from_bytes(raw[8:], "big", signed=True) + LOG_OVERHEAD
    left = (source.size_hint or 0) - damage.position
    size = max(damage.end_position - damage.position, own if own <= left else 0)
    return min(size, LARGEST) + HEADER_SIZE


def _fits(found: FoundFlip, damage: Damage) -> bool:
    """Whether the offsets lie above those before and below those after."""
    first, following = damage.first_offset, damage.next_good_offset
    is_above = first is None or found.first_offset >= first
    return is_above and (following is None or found.last_offset < following)


def _placed(found: FoundFlip, path: str, position: int) -> BatchMend:
    return BatchMend(
        path,
        position,
        position + found.size,
        position + found.flip.byte,
        found.flip.bit,
        found.first_offset,
        found.last_offset,
        found.odds,
        found.proof,
        found.is_proven,
    )
