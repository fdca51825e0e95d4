"""Tables that are wider than the terminal: columns that do not fit continue on lines of their own.

Nothing is cut or left out, because every value may be the one that matters. In a pipe or a file a row is one
line, however long.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TextIO

_INDENT = "    "
_GAP = 2


def terminal_width(out: TextIO) -> int | None:
    """Return the width of the terminal that `out` writes to; None if it is not a terminal."""
    try:
        return os.get_terminal_size(out.fileno()).columns or None
    except (AttributeError, OSError, ValueError):
        return None


def fold(widths: Sequence[int], width: int | None) -> list[range]:
    """Return which columns share a line: all of them, or as many as fit."""
    if width is None:
        return [range(len(widths))]
    groups: list[range] = []
    start, used = 0, 0
    for at, own in enumerate(widths):
        used += own if at == start else _GAP + own
        if at > start and used > width - (len(_INDENT) if groups else 0):
            groups.append(range(start, at))
            start, used = at, own
    return [*groups, range(start, len(widths))]


def folded(
    cells: Sequence[str], groups: Sequence[range], width: int | None, painted: Sequence[str] | None = None
) -> Iterator[str]:
    """Yield the lines of one row; painted where they fit, as wrapped text has no colour."""
    for number, group in enumerate(groups):
        text = (" " * _GAP).join(cells[at] for at in group).rstrip()
        indent = _INDENT if number else ""
        if painted is not None and text.strip() and (width is None or len(indent) + len(text) <= width):
            yield f"{indent}{(' ' * _GAP).join(painted[at] for at in group).rstrip()}\n"
        elif number == 0 or text.strip():
            yield from _wrapped(text, indent, width)


def _wrapped(text: str, indent: str, width: int | None) -> Iterator[str]:
    """Wrap text that is still too long. Words are not broken, so a path stays whole."""
    if width is None or len(indent) + len(text) <= width:
        yield f"{indent}{text}\n"
        return
    from textwrap import TextWrapper

    wrapper = TextWrapper(width, initial_indent=indent, subsequent_indent=_INDENT)
    wrapper.break_long_words = wrapper.break_on_hyphens = False
    yield from (f"{line}\n" for line in wrapper.wrap(text))
