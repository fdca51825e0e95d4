"""Self-contained HTML pages: markup that no content can break, and pictures.

All text that is not markup already is escaped where it is inserted, so nobody can forget it: topic and file
names are arbitrary, and a damaged disk may hold anything. A page has no script, and its policy tells the
browser to load nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import groupby

from kafkatool.commands.screen.values import printable

PALETTE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --paper: #ffffff; --well: #f6f8fa;
  --line: #d1d9e0; --accent: #0969da; --kept: #6cb6ff; --open: #0969da; --bar: #8ec5f7;
  --all: #1a7f37; --most: #57ab6a; --some: #aceebb; --cold: #e6e9ec; --dirty: #d4780a;
  --loss: #cf222e; --no-start: #8250df; --degraded: #bf6a02; --note: #6e7781; --good: #1a7f37; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9198a1; --paper: #0d1117;
  --well: #151b23; --line: #3d444d; --accent: #4493f8; --kept: #2f6cb3; --open: #79c0ff; --bar: #2a5a92;
  --all: #3fb950; --most: #2b7a3b; --some: #1b4a27; --cold: #21262d; --dirty: #e3953a;
  --loss: #f85149; --no-start: #a371f7; --degraded: #e3953a; --note: #8b949e; --good: #3fb950; } }
.all { fill: var(--all); } .most { fill: var(--most); } .some { fill: var(--some); }
.cold { fill: var(--cold); } .dirty { fill: var(--dirty); } .unknown { fill: url(#hatch); }
"""
HATCH = (
    '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<path d="M0 6L6 0" stroke="#8b949e" stroke-width="1"/></pattern></defs>'
)
# The page contains its own styles and loads nothing: no script, picture, font or form.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_EMPTY = ("rect", "path", "line", "polyline", "circle", "br", "col")


class Markup(str):
    """Text that is markup already; any other text is escaped when it is inserted into a page."""

    __slots__ = ()


def markup(*content: object) -> Markup:
    """Join pieces; those that are not markup are escaped."""
    return Markup("".join(one if isinstance(one, Markup) else escape(printable(str(one))) for one in content))


def join(content: Iterable[object], between: str = "") -> Markup:
    return Markup(markup(between).join(markup(one) for one in content))


def tag(name: str, *content: object, **attributes: object) -> Markup:
    """Build an element. `class_` stands for class, an underscore for a dash; None values are left out."""
    words = [name]
    for key, value in attributes.items():
        if value is not None:
            words.append(f'{key.strip("_").replace("_", "-")}="{escape(printable(str(value)))}"')
    if name in _EMPTY and not content:
        return Markup(f"<{' '.join(words)}/>")
    return Markup(f"<{' '.join(words)}>{markup(*content)}</{name}>")


def page(title: str, style: str, body: Iterable[str]) -> Iterator[str]:
    """Yield a whole page, in pieces of text."""
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"{tag('title', title)}\n<style>{PALETTE}{style}</style>\n</head>\n<body>\n"
        f'<svg width="0" height="0" style="position:absolute" aria-hidden="true">{HATCH}</svg>\n'
    )
    yield from body
    yield "</body>\n</html>\n"


# --- pictures -----------------------------------------------------------------------------------------


def rectangle(kind: str, x: float, y: float, width: float, height: float, title: str | None = None) -> Markup:
    inner = () if title is None else (tag("title", title),)
    return tag(
        "rect", *inner, class_=kind, x=f"{x:.1f}", y=f"{y:g}", width=f"{width:.1f}", height=f"{height:g}"
    )


def rectangles(
    kinds: Sequence[str], x: float, y: float, width: float, height: float, words: Mapping[str, str]
) -> Iterator[Markup]:
    """Draw cells of equal width: equal neighbours become one rectangle, titled with the word for its kind.

    Cells of an empty kind are not drawn.
    """
    start, step = 0, width / max(1, len(kinds))
    for kind, group in groupby(kinds):
        end = start + sum(1 for _ in group)
        if kind:
            yield rectangle(kind, x + start * step, y, (end - start) * step, height, words.get(kind))
        start = end


def picture(
    width: float, height: float, *content: object, label: str | None = None, **more: object
) -> Markup:
    """Build a drawing that fills the available width; its style sets the height."""
    return tag(
        "svg",
        *content,
        viewBox=f"0 0 {width:g} {height:g}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
        **more,
    )


def legend_entry(kind: str, word: str) -> Markup:
    """Build a patch of colour and the word for what it means."""
    patch = tag("svg", rectangle(kind, 0, 0, 12, 12), width=12, height=12, aria_hidden="true")
    return tag("span", patch, word)
