"""The options of `cat`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from kafkatool.errors import UsageError


class CatFormat(StrEnum):
    payload = "payload"
    ndjson = "ndjson"


@dataclass(frozen=True, slots=True)
class CatOptions:
    """How records are written, and until when."""

    fmt: Annotated[CatFormat, typer.Option("--format", help="payload: each value and a newline.")] = (
        CatFormat.payload
    )
    template: Annotated[
        str | None,
        typer.Option(
            "-f",
            "--template",
            metavar="TEMPLATE",
            help="As in kcat: %t topic, %p partition, %o offset, %k key, %s value, %K %S their sizes, %R "
            "the value's size as int32, %T time, %h headers, \\n \\t \\xHH. Nothing is added after it.",
        ),
    ] = None
    write_null: Annotated[
        bool,
        typer.Option("-Z", "--print-null", help="Write NULL for a null key or value instead of nothing."),
    ] = False
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait for more records at the end, until interrupted.")
    ] = False
    decoder: Annotated[
        str | None,
        typer.Option(
            "--decoder",
            metavar="CMD",
            help="Decode keys and values with a program. For each record it reads and writes the key and "
            "the value, each as an int32 length (big-endian, -1 for null) followed by the bytes.",
        ),
    ] = None

    def refuse_nonsense(self) -> None:
        """Check that the options fit together. Raises UsageError."""
        if self.template is not None and self.fmt is not CatFormat.payload:
            raise UsageError("-f is a format of its own: leave --format out")
