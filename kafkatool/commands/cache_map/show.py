"""`cache-map` as a table or NDJSON, once or repeatedly."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, TextIO

from kafkatool.commands.cache_map.options import MapFormat
from kafkatool.commands.rows.cache import (
    ALL,
    COLD,
    DIRTY,
    LEGEND,
    MOST,
    SOME,
    UNKNOWN,
    CacheRow,
    CacheView,
    add_up,
    columns,
    file_row,
    line,
    log_cells,
    partition_row,
    place_of,
    reader_row,
    reader_sentence,
    segment_row,
    tail_sentence,
)
from kafkatool.commands.screen.table import Ndjson, Table
from kafkatool.commands.screen.values import has_colour, human_size, printable, stdout, takes_escapes
from kafkatool.engine.cache.residents import (
    CachedTail,
    MappedPartition,
    Reader,
    cached_tail,
    map_targets,
    noted_places,
    reading_from,
)
from kafkatool.engine.cluster.group_offsets import TOPIC, GroupOffsets, read_group_offsets
from kafkatool.engine.directory.partition_filter import parse_partition_filter
from kafkatool.engine.directory.selection import Selection
from kafkatool.engine.directory.targets import FileTarget, LogDirTarget, Target
from kafkatool.engine.files.residency import Cell, condensed

if TYPE_CHECKING:
    from kafkatool.commands.cache_map.looking import Looking

_COLOURS = ((f"[{DIRTY}]+", "33"), (f"[{ALL}{MOST}]+", "32"), (f"[{SOME}]+", "36"), (f"[{COLD}]{{2,}}", "2"))
_NUMBERS_WIDTH = 64
"""The width of the columns beside the map, long topic names aside."""

Shown = tuple[CacheRow, list[Cell] | None]


class Looked:
    """One round: the rows of the chosen view, and the sentences below them."""

    def __init__(self, looking: Looking, targets: list[Target], view: CacheView) -> None:
        self._looking, self._targets, self._view = looking, targets, view
        self._groups = self._committed()
        self.total: CacheRow = {}
        self.sentences: list[str] = []
        self.readers: list[CacheRow] = []

    def rows(self) -> Iterator[Shown]:
        """Yield the rows of the view, in order; a topic's row comes when all its partitions are known."""
        topics: dict[str | None, tuple[CacheRow, list[Cell] | None]] = {}
        for mapped in map_targets(self._targets, self._looking.guest, self._looking.notes):
            tail = cached_tail(mapped, self._looking.guest)
            row = partition_row(mapped, tail)
            add_up(self.total, row)
            self._tell(mapped, tail, row)
            if self._view is CacheView.topics:
                _add_topic(topics, mapped, row)
            else:
                yield from self._of(mapped, row)
        yield from topics.values()

    def _of(self, mapped: MappedPartition, row: CacheRow) -> Iterator[Shown]:
        if self._view is CacheView.partitions:
            yield row, log_cells(mapped.live or mapped.segments)
        elif self._view is CacheView.segments:
            yield from ((segment_row(one, mapped), log_cells([one])) for one in mapped.segments)
        else:
            for file in mapped.files:
                found = file_row(file, mapped, with_ranges=False)
                found["name"] = os.path.join(place_of(mapped), file.entry.name)
                yield found, None if file.map.resident is None else list(file.map.cells)

    def _tell(self, mapped: MappedPartition, tail: CachedTail | None, row: CacheRow) -> None:
        if mapped.live:
            self.sentences.append(tail_sentence(mapped, tail, row))
        for reader in self.reading(mapped):
            self.sentences.append(reader_sentence(reader, mapped))

    def reading(self, mapped: MappedPartition) -> Iterator[Reader]:
        known = {**self._groups.get(mapped.partition.key, {}), **self._looking.lags}
        for group, offset in sorted(known.items()) if mapped.live else ():
            yield reading_from(mapped, group, offset, self._looking.guest)

    def _committed(self) -> GroupOffsets:
        """Return the offsets that groups committed to `__consumer_offsets` on these disks, for --groups."""
        if not self._looking.groups:
            return {}
        homes: list[Target] = [_home(target) for target in self._targets]
        only = parse_partition_filter([TOPIC])
        found = noted_places(Selection(dict.fromkeys(homes), self._looking.guest, only), self._looking.notes)
        return read_group_offsets((one.partition for one in found), self._looking.guest)


def _home(target: Target) -> LogDirTarget:
    """Return the log directory that a target lies in."""
    if isinstance(target, LogDirTarget):
        return target
    parent = os.path.dirname(os.path.abspath(target.path))
    return LogDirTarget(os.path.dirname(parent) if isinstance(target, FileTarget) else parent)


def _add_topic(
    topics: dict[str | None, tuple[CacheRow, list[Cell] | None]], mapped: MappedPartition, row: CacheRow
) -> None:
    topic = mapped.partition.topic
    empty: tuple[CacheRow, list[Cell] | None] = ({"kind": "cache_topic", "topic": topic, "partitions": 0}, [])
    total, cells = topics.setdefault(topic, empty)
    total["partitions"] += 1
    add_up(total, row)
    more = log_cells(mapped.live)
    if cells is None or more is None:
        topics[topic] = (total, None)
    else:
        cells[:] = condensed([*cells, *more], 4096)  # bounded, however many partitions a topic has


# --- once ---------------------------------------------------------------------------------------------


def show(
    looking: Looking, targets: list[Target], view: CacheView, *, every_kind: bool, with_ranges: bool
) -> None:
    """Write everything once. `every_kind`: files and partitions, for a script that chose no view."""
    looked = Looked(looking, targets, view)
    if looking.fmt is MapFormat.ndjson:
        lines = Ndjson(stdout())
        for row in _ndjson(looking, targets, looked, view, every_kind, with_ranges):
            lines.write(row)
        return
    looking.talk.heading(LEGEND)
    _write_table(looking, looked, view, stdout(), None)


def _ndjson(
    looking: Looking,
    targets: list[Target],
    looked: Looked,
    view: CacheView,
    every_kind: bool,
    with_ranges: bool,
) -> Iterator[CacheRow]:
    if not every_kind and view is not CacheView.files:
        yield from (row for row, _cells in islice(looked.rows(), looking.limit))
        return
    for mapped in islice(map_targets(targets, looking.guest, looking.notes), looking.limit):
        yield from (file_row(file, mapped, with_ranges) for file in mapped.files)
        if every_kind and mapped.segments:
            yield partition_row(mapped, cached_tail(mapped, looking.guest))
        yield from (reader_row(reader, mapped) for reader in looked.reading(mapped))


def _write_table(
    looking: Looking, looked: Looked, view: CacheView, out: TextIO, before: dict[str, int] | None
) -> dict[str, int]:
    """Write the table, the total and the sentences; return how much of each row was resident."""
    painted = _Painted(out) if has_colour(sys.stdout) else out
    table = Table(columns(view, is_watched=before is not None), painted, raw=looking.raw)  # type: ignore[arg-type]
    width = max(16, min(128, looking.width - _NUMBERS_WIDTH))
    resident: dict[str, int] = {}
    for row, cells in islice(looked.rows(), looking.limit):
        shown = (
            line(row, cells, width)
            if cells is not None
            else {**line(row, [], width), "strip": UNKNOWN * width}
        )
        name = _name(row)
        resident[name] = row["resident_size"] or 0
        if before is not None:
            shown["change"] = _change(resident[name] - before.get(name, resident[name]))
        table.write(shown)
    if looked.total and len(resident) > 1:
        first = columns(view, is_watched=False)[0].key
        if view is CacheView.files:
            looked.total.pop("log_size")
        table.write({**line(looked.total, [], width), first: "total", "strip": " "})
    table.close()
    for sentence in looked.sentences:
        out.write(f"{printable(sentence)}\n")
    return resident


def _name(row: CacheRow) -> str:
    return str([row.get(key) for key in ("directory", "topic", "partition", "segment", "file", "state")])


def _change(difference: int) -> str:
    if not difference:
        return "0"
    return ("+" if difference > 0 else "-") + human_size(abs(difference))


# --- repeatedly ---------------------------------------------------------------------------------------


def watch(
    looking: Looking, targets: list[Target], view: CacheView, interval: float, rounds: int | None
) -> None:
    """Refresh in place on a terminal; otherwise write one table or set of rows after another."""
    before: dict[str, int] = {}
    number = 0
    while rounds is None or number < rounds:
        if number:
            time.sleep(interval)
        looked = Looked(looking, targets, view)
        if looking.fmt is MapFormat.ndjson:
            _write_round(looking, looked, number)
        else:
            before = _redraw(looking, looked, view, before)
        sys.stdout.flush()
        number += 1


def _write_round(looking: Looking, looked: Looked, number: int) -> None:
    lines = Ndjson(stdout())
    for row, _cells in looked.rows():
        row.pop("name", None)
        lines.write({**row, "round": number})


def _redraw(looking: Looking, looked: Looked, view: CacheView, before: dict[str, int]) -> dict[str, int]:
    import io

    page = io.StringIO()
    when = time.strftime("%H:%M:%S")
    page.write(f"{when}  {LEGEND}\n")
    after = _write_table(looking, looked, view, page, before)
    out, text = stdout(), page.getvalue()
    if takes_escapes(sys.stdout):
        rows = os.get_terminal_size(sys.stdout.fileno()).lines
        lines = text.splitlines()
        kept = [*lines[: rows - 2], f"… {len(lines) - rows + 2} more lines"] if len(lines) >= rows else lines
        # Cursor home, each line cleared to its end, then clear the rest of the last round.
        out.write("\x1b[H" + "".join(f"{one}\x1b[K\n" for one in kept) + "\x1b[J")
    else:
        out.write(text + "\n")
    return after


# --- colour -------------------------------------------------------------------------------------------


class _Painted:
    """A writer that colours strips; without colour the characters mean the same."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, text: str) -> None:
        for pattern, colour in _COLOURS:
            text = re.sub(pattern, lambda found, colour=colour: f"\x1b[{colour}m{found[0]}\x1b[0m", text)  # type: ignore[misc]
        self._out.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for one in lines:
            self.write(one)
