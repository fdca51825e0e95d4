"""`cache-map` as a picture: one SVG, or one HTML page that needs nothing beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from kafkatool.commands.cache_map_rows import (
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
from kafkatool.commands.render import human_size
from kafkatool.engine.cache_map import MappedPartition, MappedSegment, cached_tail
from kafkatool.engine.pagecache import PAGE
from kafkatool.engine.residency import Cell
from kafkatool.engine.source import Guest

_PARTS = 128
_CLASSES = {ALL: "all", MOST: "most", SOME: "some", COLD: "cold", DIRTY: "dirty", UNKNOWN: "unknown"}
_WORDS = {
    ALL: "in memory",
    MOST: "most of it in memory",
    SOME: "some of it in memory",
    COLD: "on disk only",
    DIRTY: "not yet written to disk",
    UNKNOWN: "not told",
}
_STYLE = """
:root { --ink: #1b1f24; --soft: #59636e; --paper: #ffffff; --line: #d1d9e0;
  --all: #1a7f37; --most: #57ab6a; --some: #aceebb; --cold: #e6e9ec; --dirty: #d4780a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9198a1; --paper: #0d1117;
  --line: #3d444d; --all: #3fb950; --most: #2b7a3b; --some: #1b4a27; --cold: #21262d; --dirty: #e3953a; } }
.all { fill: var(--all); } .most { fill: var(--most); } .some { fill: var(--some); }
.cold { fill: var(--cold); } .dirty { fill: var(--dirty); } .unknown { fill: url(#hatch); }
"""
_HATCH = (
    '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<path d="M0 6L6 0" stroke="#8b949e" stroke-width="1"/></pattern></defs>'
)


def _rectangles(cells: Sequence[Cell] | None, x: int, y: int, width: int, height: int) -> Iterator[str]:
    """Equal neighbours are one rectangle."""
    if cells is None:
        yield _rectangle(UNKNOWN, x, y, width, height)
        return
    characters = [character for character, _share in strip_cells(cells, _PARTS)] or [COLD]
    start, step = 0, width / len(characters)
    for at, character in enumerate(characters):
        if at + 1 == len(characters) or characters[at + 1] != character:
            yield _rectangle(character, x + start * step, y, (at + 1 - start) * step, height)
            start = at + 1


def _rectangle(character: str, x: float, y: float, width: float, height: float) -> str:
    return (
        f'<rect class="{_CLASSES[character]}" x="{x:.1f}" y="{y:g}" width="{width:.1f}" height="{height:g}">'
        f"<title>{_WORDS[character]}</title></rect>"
    )


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
    """The picture, in pieces of text. Its height is known only when all of it is."""
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
        f'height="{height}" font-family="system-ui, sans-serif" font-size="13">\n<style>{_STYLE}'
        ".paper { fill: var(--paper); } text { fill: var(--ink); } .soft { fill: var(--soft); }"
        " .name { font-weight: 600; } .number { text-anchor: end; }</style>\n"
        f'{_HATCH}\n<rect class="paper" width="{_WIDTH}" height="{height}"/>\n'
    )
    yield from _svg_legend()
    yield "\n".join(parts) + "\n</svg>\n"


def _svg_row(one: MappedSegment, mapped: MappedPartition, y: int) -> Iterator[str]:
    for x, text in zip((150, 220, 300, 380), _numbers(one, mapped), strict=True):
        yield _text(x, y + 14, text, "number")
    yield from _rectangles(log_cells([one]), _STRIP_X, y + 3, _WIDTH - _STRIP_X - _MARGIN, 14)


def _svg_legend() -> Iterator[str]:
    for x, title in zip((150, 220, 300, 380), ("segment", "log", "resident", "dirty"), strict=True):
        yield _text(x, 32, title, "number soft") + "\n"
    x = _STRIP_X
    words = {ALL: "in memory", MOST: "most of it", SOME: "some of it", COLD: "on disk only", DIRTY: "dirty"}
    for character, word in words.items():
        yield f"{_rectangle(character, x, 22, 12, 12)}\n{_text(x + 17, 32, word, 'soft')}\n"
        x += 40 + 7 * len(word)


def _text(x: int, y: int, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(text)}</text>'


# --- HTML ---------------------------------------------------------------------------------------------

_PAGE_STYLE = (
    _STYLE
    + """
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
)


def draw_html(partitions: Iterable[MappedPartition], guest: Guest) -> Iterator[str]:
    """The page, a partition at a time."""
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<title>kafkatool cache-map</title>\n"
        f"<style>{_PAGE_STYLE}</style>\n</head>\n<body>\n"
        f'<svg width="0" height="0" style="position:absolute">{_HATCH}</svg>\n'
        "<h1>What of these logs is in memory</h1>\n"
    )
    legend = (
        f'<span><svg width="12" height="12">{_rectangle(one, 0, 0, 12, 12)}</svg>{_WORDS[one]}</span>'
        for one in (ALL, MOST, SOME, COLD, DIRTY)
    )
    yield f'<p class="legend">{"".join(legend)}</p>\n'
    for mapped in partitions:
        if mapped.segments:
            yield from _html_partition(mapped, guest)
    yield "</body>\n</html>\n"


def _html_partition(mapped: MappedPartition, guest: Guest) -> Iterator[str]:
    tail = cached_tail(mapped, guest)
    name, _colon, meaning = tail_sentence(mapped, tail, partition_row(mapped, tail)).partition(": ")
    yield f"<h2>{escape(name)}</h2>\n<p>{escape(meaning)}</p>\n<table>\n"
    yield (
        "<tr><th>segment</th><th>log</th><th>resident</th><th>dirty</th>"
        '<th class="map">first byte to last</th></tr>\n'
    )
    for one in mapped.segments:
        cells = "".join(f"<td>{escape(text)}</td>" for text in _numbers(one, mapped))
        strip = "".join(_rectangles(log_cells([one]), 0, 0, 640, 14))
        picture = f'<svg viewBox="0 0 640 14" preserveAspectRatio="none">{strip}</svg>'
        yield f'<tr>{cells}<td class="map">{picture}</td></tr>\n'
    yield "</table>\n"
