"""Tables of a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafkatool.commands.screen.page import Markup, tag

Heads = Sequence[tuple[str, str]]
"""Title and look of every column: n (a number), one (never broken), name, text, bar; `wide` leaves a column
out where there is no room for it."""


def table(heads: Heads, rows: Iterable[Sequence[object]], *, stacks: bool = False) -> Markup:
    """A table that scrolls by itself where it is too wide; one that stacks becomes a list there instead."""
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
