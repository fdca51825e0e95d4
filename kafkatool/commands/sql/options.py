"""The options of `sql`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from kafkatool.commands.line.options import PathOptions


class SqlFormat(StrEnum):
    """The formats of the result."""

    table = "table"
    ndjson = "ndjson"
    csv = "csv"
    parquet = "parquet"


@dataclass(frozen=True, slots=True)
class LabelledPaths(PathOptions):
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH...",
            help="Log directories, partitions, files, server.properties or quoted globs; "
            "LABEL=PATH names a root.",
        ),
    ] = None
