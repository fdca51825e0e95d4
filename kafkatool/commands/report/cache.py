"""What `report` shows of the page cache: sums over all partitions, strips of the largest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kafkatool.commands.rows.cache import CacheRow, log_cells, partition_row, tail_sentence
from kafkatool.commands.rows.stats import share_text
from kafkatool.engine.cache.residents import CachedTail, MappedPartition
from kafkatool.engine.files.residency import Cell, condensed

MOST_STRIPS = 24
_CELLS = 1024


@dataclass(frozen=True, slots=True)
class CacheStrip:
    name: str
    meaning: str
    size: int
    share: str
    cells: list[Cell] | None


@dataclass(slots=True)
class CacheShown:
    """The largest partitions, and the totals of all."""

    strips: list[CacheStrip] = field(default_factory=list)
    left_out: int = 0
    log_size: int = 0
    resident_size: int | None = 0

    @property
    def share(self) -> str:
        return _share(self.resident_size, self.log_size)

    def add(self, mapped: MappedPartition, tail: CachedTail | None) -> CacheRow:
        """Add a partition, and return its row."""
        row = partition_row(mapped, tail)
        size, resident = row["log_size"], row["log_resident_size"]
        self.log_size += size
        known = self.resident_size is not None and resident is not None
        self.resident_size = (self.resident_size or 0) + resident if known else None
        if len(self.strips) < MOST_STRIPS or size > self.strips[-1].size:
            self._insert(mapped, tail, row)
        elif size:
            self.left_out += 1
        return row

    def _insert(self, mapped: MappedPartition, tail: CachedTail | None, row: CacheRow) -> None:
        name, _colon, meaning = tail_sentence(mapped, tail, row).partition(": ")
        cells = log_cells(mapped.live)
        strip = CacheStrip(
            name,
            meaning,
            row["log_size"],
            _share(row["log_resident_size"], row["log_size"]),
            None if cells is None else condensed(cells, _CELLS),
        )
        self.strips = sorted([*self.strips, strip], key=lambda one: -one.size)
        self.left_out += len(self.strips) > MOST_STRIPS
        del self.strips[MOST_STRIPS:]


def gather_cache(maps: Iterable[tuple[MappedPartition, CachedTail | None]]) -> CacheShown:
    shown = CacheShown()
    for mapped, tail in maps:
        shown.add(mapped, tail)
    return shown


def _share(resident: int | None, size: int) -> str:
    return "?" if resident is None else share_text(resident / size) if size else "-"
