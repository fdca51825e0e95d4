"""The options of `lookup`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.screen.values import Format
from kafkatool.errors import UsageError
from kafkatool.format.java_text import LONG_MAX

if TYPE_CHECKING:
    from kafkatool.engine.directory.lookups import LookupRequest


@dataclass(frozen=True, slots=True)
class LookupOptions:
    """What is looked for."""

    offset: Annotated[
        int | None,
        typer.Option("--offset", metavar="N", min=0, max=LONG_MAX, help="Find this offset."),
    ] = None
    time: Annotated[
        str | None,
        typer.Option(
            "--time",
            metavar="TIME",
            help="Find the first record at or after this time: epoch ms, @EPOCH_MS, ISO 8601, now-2h.",
        ),
    ] = None
    explain: Annotated[
        bool, typer.Option("--explain", help="Show every step, and what a full scan would find.")
    ] = False

    def refuse_nonsense(self, fmt: Format) -> None:
        """Check that the options fit together. Raises UsageError."""
        if (self.offset is None) == (self.time is None):
            raise UsageError("lookup needs one of --offset and --time")
        if self.explain and fmt is Format.csv:
            raise UsageError("--explain has rows of two kinds, csv holds one: choose table or ndjson")

    def request(self) -> LookupRequest:
        """Return the request for the engine. Raises UsageError."""
        from time import time_ns

        from kafkatool.commands.line.arguments import parse_time
        from kafkatool.engine.directory.lookups import LookupRequest

        time_ms = None if self.time is None else parse_time(self.time, time_ns() // 1_000_000)
        return LookupRequest(self.offset, time_ms, self.explain)

    @property
    def words(self) -> str:
        """The offset or the time, as it was typed."""
        return str(self.offset if self.time is None else self.time)
