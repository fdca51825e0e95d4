"""What a query says, as far as that can be told from its words alone."""

from __future__ import annotations

import re

from kafkatool.errors import UsageError
from kafkatool.spark.schemas import TYPES, Granularity

_CHEAPEST = {
    Granularity.RECORDS: "offset",
    Granularity.BATCHES: "base_offset",
    Granularity.SEGMENTS: "segment",
}
_READS = re.compile(r"\s*(?:\(\s*)*(select|with|from|values|table|describe|desc|explain)\b", re.IGNORECASE)
_WRITES = re.compile(r"\b(insert|create|drop|alter|merge|truncate|delete|update)\b\s+\w", re.IGNORECASE)
_LITERALS = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
_STAR = re.compile(r"(?:\b(?:select|distinct|all)|,|\.)\s*\*|\bnatural\b", re.IGNORECASE)


def refuse_writing(query: str) -> None:
    """Raises UsageError where a query would do more than read."""
    bare = _LITERALS.sub(" ", query)
    if not _READS.match(bare) or _WRITES.search(bare):
        raise UsageError(
            "sql only reads: a query begins with SELECT, WITH, FROM, VALUES, DESCRIBE or EXPLAIN"
        )


def used_columns(query: str, granularity: Granularity) -> list[str]:
    """The columns of a view that a query may need: those that it names, or all where it says `*`.

    Spark tells a Python source nothing of the kind, and what is not asked for is not decoded.
    """
    bare = _LITERALS.sub(" ", query)
    names = list(TYPES[granularity])
    if _STAR.search(bare) or not re.match(r"\s*(?:\(\s*)*(select|with|from)\b", bare, re.IGNORECASE):
        return names
    words = {word.lower() for word in re.findall(r"\w+", bare)}
    return [name for name in names if name in words] or [_CHEAPEST[granularity]]


def views_of(query: str) -> list[Granularity]:
    words = {word.lower() for word in re.findall(r"\w+", _LITERALS.sub(" ", query))}
    return [view for view in Granularity if str(view) in words]
