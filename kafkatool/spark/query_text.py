"""What a query's text alone shows about it."""

from __future__ import annotations

import re

from kafkatool.spark.schemas import TYPES, Granularity

_CHEAPEST = {
    Granularity.RECORDS: "offset",
    Granularity.BATCHES: "base_offset",
    Granularity.SEGMENTS: "segment",
}
_LITERALS = re.compile(
    r"\b[rR](?:'[^']*'|\"[^\"]*\")|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|--[^\n]*|/\*.*?\*/", re.DOTALL
)
_STAR = re.compile(r"(?:\b(?:select|distinct|all)|,|\.)\s*\*|\b(?:natural|table)\b|\|>", re.IGNORECASE)
"""Syntax that uses columns without naming them."""


def columns_of(granularity: Granularity) -> list[str]:
    """Return the columns of a view: damage is no record, so `error` is none of its columns."""
    is_record = granularity is Granularity.RECORDS
    return [name for name in TYPES[granularity] if not (is_record and name == "error")]


def used_columns(query: str, granularity: Granularity) -> list[str]:
    """Return the columns of a view that a query may need: those it names, or all if it uses `*`.

    Spark does not pass this to a Python source, and columns not asked for are not decoded.
    """
    bare = _LITERALS.sub(" ", query)
    names = columns_of(granularity)
    if _STAR.search(bare) or not re.match(r"\s*(?:\(\s*)*(select|with)\b", bare, re.IGNORECASE):
        return names
    words = {word.lower() for word in re.findall(r"\w+", bare)}
    return [name for name in names if name in words] or [_CHEAPEST[granularity]]


def views_of(query: str) -> list[Granularity]:
    """Return the views that a query may name."""
    words = {word.lower() for word in re.findall(r"\w+", _LITERALS.sub(" ", query))}
    return [view for view in Granularity if str(view) in words]
