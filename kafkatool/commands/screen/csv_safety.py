"""CSV that a spreadsheet does not run: `--csv-safe`, for every command that writes CSV.

Spreadsheets treat a cell that starts with = + - @, a tab or a line end as a formula. After an apostrophe it
is text. Numbers are left as they are: they are not formulas, and people add them up.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from enum import Enum
from inspect import Parameter
from typing import Annotated, Any, get_args

import typer

CSV_SAFE: ContextVar[bool] = ContextVar("csv_safe", default=False)
NAME = "csv_safe"
_FORMULA = re.compile(r"[=+\-@\t\r\n]")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")

OPTION = Parameter(
    NAME,
    Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        typer.Option(
            "--csv-safe",
            help="In CSV, put an apostrophe before text that a spreadsheet would run as a formula.",
        ),
    ],
)


def harmless_cell(text: str) -> str:
    """Return the text of a cell, with an apostrophe if a spreadsheet would run it."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def offers_csv(annotation: Any) -> bool:
    """Return whether csv is one of the values of an option."""
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return "csv" in annotation.__members__
    return any(offers_csv(one) for one in get_args(annotation))
