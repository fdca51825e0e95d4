"""HTML tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafkatool.commands.screen.page import Markup, tag

Heads = Sequence[tuple[str, str]]
"""Title and CSS classes of every column: n (a number), one (never wrapped), name, text, bar; `wide` hides a
column where there is no room for it."""


def table(heads: Heads, rows: Iterable[Sequence[object]], *, stacks: bool = False) -> Markup:
    """Build a table that scrolls by itself if it is too wide; with `stacks` it becomes a list instead."""
    titles = [tag("th", title, class_=look) for title, look in heads]
    lines = [_line(heads, row) for row in rows]
    inner = tag("table", tag("thead", tag("tr", *titles)), tag("tbody", *lines))
    return tag("div", inner, class_="scroll stacks" if stacks else "scroll")


def _line(heads: Heads, row: Sequence[object]) -> Markup:
    cells = [
        tag("td", content, class_=look, data_title=title)
        for (title, look), content in zip(heads, row, strict=True)
    ]
    return Markup(tag("tr", *cells) + "\n")
