"""`cache-map` as a picture: one SVG, or one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kafkatool.commands.rows.cache import (
    ALL,
    COLD,
    DIRTY,
    MOST,
    SOME,
    UNKNOWN,
    log_cells,
    partition_row,
    segment_row,
    strip_cells,
    tail_sentence,
)
from kafkatool.commands.screen.page import (
    HATCH,
    PALETTE,
    Markup,
    join,
    legend_entry,
    page,
    picture,
    rectangle,
    rectangles,
    tag,
)
from kafkatool.commands.screen.values import human_size
from kafkatool.engine.cache.residents import MappedPartition, MappedSegment, cached_tail
from kafkatool.engine.files.page_cache import PAGE
from kafkatool.engine.files.residency import Cell
from kafkatool.engine.files.source import Guest

_PARTS = 128
_CLASSES = {ALL: "all", MOST: "most", SOME: "some", COLD: "cold", DIRTY: "dirty", UNKNOWN: "unknown"}
_WORDS = {
    "all": "in memory",
    "most": "most of it in memory",
    "some": "some of it in memory",
    "cold": "on disk only",
    "dirty": "not yet written to disk",
    "unknown": "not told",
}


def _strip(cells: Sequence[Cell] | None, x: int, y: int, width: int, height: int) -> Iterator[str]:
    """Draw the pages of a log from first to last."""
    kinds = ["unknown"]
    if cells is not None:
        kinds = [_CLASSES[one] for one, _share in strip_cells(cells, _PARTS)] or [_CLASSES[COLD]]
    return rectangles(kinds, x, y, width, height, _WORDS)


def _numbers(one: MappedSegment, mapped: MappedPartition) -> tuple[str, str, str, str]:
    row = segment_row(one, mapped)
    resident, dirty = row["log_resident_size"], row["dirty_pages"]
    return (
        f"{one.segment.base_offset:,}",
        human_size(row["log_size"]),
        "?" if resident is None else human_size(resident),
        "?" if dirty is None else human_size(dirty * PAGE),
    )


# --- SVG ----------------------------------------------------------------------------------------------

_WIDTH, _ROW, _MARGIN, _STRIP_X = 1000, 20, 16, 400


def draw_svg(partitions: Iterable[MappedPartition], guest: Guest) -> Iterator[str]:
    """Yield the picture, in pieces of text. Its height is known only when all rows are."""
    parts: list[str] = []
    y = 46
    for mapped in partitions:
        if not mapped.segments:
            continue
        tail = cached_tail(mapped, guest)
        sentence = tail_sentence(mapped, tail, partition_row(mapped, tail))
        name, _colon, meaning = sentence.partition(": ")
        parts.append(_text(_MARGIN, y + 18, name, "name"))
        parts.append(_text(_MARGIN, y + 36, meaning, "soft"))
        y += 44
        for one in mapped.segments:
            parts += _svg_row(one, mapped, y)
            y += _ROW
        y += 14
    height = y + _MARGIN
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
        f'height="{height}" font-family="system-ui, sans-serif" font-size="13">\n<style>{PALETTE}'
        ".paper { fill: var(--paper); } text { fill: var(--ink); } .soft { fill: var(--soft); }"
        " .name { font-weight: 600; } .number { text-anchor: end; }</style>\n"
        f'{HATCH}\n<rect class="paper" width="{_WIDTH}" height="{height}"/>\n'
    )
    yield from _svg_legend()
    yield "\n".join(parts) + "\n</svg>\n"


def _svg_row(one: MappedSegment, mapped: MappedPartition, y: int) -> Iterator[str]:
    for x, text in zip((150, 220, 300, 380), _numbers(one, mapped), strict=True):
        yield _text(x, y + 14, text, "number")
    yield from _strip(log_cells([one]), _STRIP_X, y + 3, _WIDTH - _STRIP_X - _MARGIN, 14)


def _svg_legend() -> Iterator[str]:
    for x, title in zip((150, 220, 300, 380), ("segment", "log", "resident", "dirty"), strict=True):
        yield _text(x, 32, title, "number soft") + "\n"
    x = _STRIP_X
    words = {ALL: "in memory", MOST: "most of it", SOME: "some of it", COLD: "on disk only", DIRTY: "dirty"}
    for character, word in words.items():
        yield f"{rectangle(_CLASSES[character], x, 22, 12, 12)}\n{_text(x + 17, 32, word, 'soft')}\n"
        x += 40 + 7 * len(word)


def _text(x: int, y: int, text: str, kind: str) -> Markup:
    return tag("text", text, class_=kind, x=x, y=y)


# --- HTML ---------------------------------------------------------------------------------------------

_STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1rem; margin: 1.6rem 0 .2rem; overflow-wrap: anywhere; }
p { margin: .2rem 0 .5rem; color: var(--soft); }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: right; padding: .15rem .6rem; font-variant-numeric: tabular-nums; white-space: nowrap; }
th { color: var(--soft); font-weight: 400; border-bottom: 1px solid var(--line); }
td.map, th.map { width: 60%; text-align: left; } td.map svg { display: block; width: 100%; height: 14px; }
.legend span { margin-right: 1.2rem; white-space: nowrap; }
.legend svg { vertical-align: -1px; margin-right: .3rem; }
"""


def draw_html(partitions: Iterable[MappedPartition], guest: Guest) -> Iterator[str]:
    """Return the page in pieces, one partition at a time."""
    return page("kafkatool cache-map", _STYLE, _body(partitions, guest))


def _body(partitions: Iterable[MappedPartition], guest: Guest) -> Iterator[str]:
    yield "<h1>What of these logs is in memory</h1>\n"
    yield cache_legend() + "\n"
    for mapped in partitions:
        if mapped.segments:
            yield from _html_partition(mapped, guest)


def cache_legend() -> Markup:
    """Build the legend of the strips' colours."""
    kinds = ("all", "most", "some", "cold", "dirty")
    return tag("p", join(legend_entry(kind, _WORDS[kind]) for kind in kinds), class_="legend")


def cache_strip(cells: Sequence[Cell] | None, label: str) -> Markup:
    """Build a log's strip, as wide as the available room."""
    return picture(640, 14, *_strip(cells, 0, 0, 640, 14), label=label)


def _html_partition(mapped: MappedPartition, guest: Guest) -> Iterator[str]:
    tail = cached_tail(mapped, guest)
    name, _colon, meaning = tail_sentence(mapped, tail, partition_row(mapped, tail)).partition(": ")
    yield f"{tag('h2', name)}\n{tag('p', meaning)}\n<table>\n"
    yield (
        "<tr><th>segment</th><th>log</th><th>resident</th><th>dirty</th>"
        '<th class="map">first byte to last</th></tr>\n'
    )
    for one in mapped.segments:
        cells = join(tag("td", text) for text in _numbers(one, mapped))
        strip = cache_strip(log_cells([one]), f"pages of segment {one.segment.base_offset}")
        yield tag("tr", cells, tag("td", strip, class_="map")) + "\n"
    yield "</table>\n"
