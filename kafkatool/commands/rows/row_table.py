"""Declare a kind of row once: NDJSON, columns, the manual and the JSON schema are derived from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafkatool.commands.screen.table import Column, Look
from kafkatool.engine.batches.row_fields import RowField

_LOOKS = dict.fromkeys(("int16", "int32", "int64", "real"), Look.number) | {
    "size": Look.size,
    "time_ms": Look.time,
}


class RowTable:
    """The fields of one kind of row, in the order of NDJSON."""

    def __init__(self, kind: str, command: str, meaning: str, *fields: RowField) -> None:
        """Take the fields in order. `command` writes such rows; if several do, it is the first."""
        self.kind = kind
        self.command = command
        self.meaning = meaning
        self.fields = fields
        self.keys = tuple(field.key for field in fields)
        self._known = frozenset(self.keys)
        self._getters = [(field.key, field.getter, field.optional) for field in fields]

    def row(self, subject: object = None, /, **given: object) -> dict[str, Any]:
        """Build the row of a subject. Given values replace those of the subject.

        Without a subject, all others are null. Optional keys are present only if they are given.
        """
        assert given.keys() <= self._known, given.keys() - self._known
        row: dict[str, Any] = {"kind": self.kind}
        for key, get, is_optional in self._getters:
            if key in given:
                row[key] = given[key]
            elif not is_optional:
                row[key] = None if subject is None else get(subject)
        return row

    def columns(self, **shown: str | Column) -> tuple[Column, ...]:
        """Build the columns of a table, by key and title; keys that only the table has are texts."""
        looks = {field.key: _LOOKS.get(field.type, Look.text) for field in self.fields}
        return tuple(
            title if isinstance(title, Column) else Column(key, title, looks.get(key, Look.text))
            for key, title in shown.items()
        )


def plain_columns(keys: Iterable[str]) -> tuple[Column, ...]:
    """Build the columns of CSV, which are named like the keys."""
    return tuple(Column(key, key) for key in keys)
