"""The options of commands that show records as a consumer gets them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.errors import UsageError

if TYPE_CHECKING:
    from kafkatool.commands.filters import RecordFilter
    from kafkatool.commands.options import CommonOptions
    from kafkatool.commands.record_reading import Reading


class ExportFormat(StrEnum):
    """What `export` writes."""

    parquet = "parquet"
    arrow = "arrow"
    csv = "csv"
    ndjson = "ndjson"


@dataclass(frozen=True, slots=True)
class VisibleOptions:
    """How much of a log is shown."""

    show_all: Annotated[
        bool,
        typer.Option(
            "--all",
            help="The whole log: aborted, open, above the high watermark, below the log start, control.",
        ),
    ] = False
    high_watermark: Annotated[
        str,
        typer.Option(
            "--high-watermark",
            metavar="checkpoint|end|N",
            help="From where on records are hidden; without a checkpoint it is the end of the log.",
        ),
    ] = "checkpoint"
    max_batch_size: Annotated[
        str,
        typer.Option("--max-batch-size", metavar="SIZE", help="Largest batch to take, inflated too."),
    ] = "64M"

    def reading(self, chosen: RecordFilter, common: CommonOptions) -> Reading:
        """Raises UsageError."""
        from kafkatool.commands.arguments import parse_size
        from kafkatool.commands.record_reading import Reading

        return Reading(
            chosen=chosen,
            show_all=self.show_all,
            max_batch_size=parse_size(self.max_batch_size),
            high_watermark=self._high_watermark(),
            guest=common.guest(),
            talk=common.talk(),
        )

    def _high_watermark(self) -> int | None:
        from kafkatool.engine.visibility import LOG_END

        if self.high_watermark == "checkpoint":
            return None
        if self.high_watermark == "end":
            return LOG_END
        if self.high_watermark.isascii() and self.high_watermark.isdigit():
            return int(self.high_watermark)
        raise UsageError(f"--high-watermark {self.high_watermark!r}: write checkpoint, end or an offset")
