"""Options of commands that show records as a consumer gets them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.options import CommonOptions, MendBitsOpt

if TYPE_CHECKING:
    from kafkatool.commands.line.record_filters import RecordFilter
    from kafkatool.commands.records.reading import RecordReading


class ExportFormat(StrEnum):
    """The formats that `export` writes."""

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
            help="Show the whole log: also aborted, open and control records, and those above the high "
            "watermark or below the log start.",
        ),
    ] = False
    high_watermark: Annotated[
        str,
        typer.Option(
            "--high-watermark",
            metavar="checkpoint|end|N",
            help="Hide records from here on. Without a checkpoint it is the end of the log.",
        ),
    ] = "checkpoint"
    max_batch_size: Annotated[
        str,
        typer.Option("--max-batch-size", metavar="SIZE", help="Largest batch to read, compressed or not."),
    ] = "64M"
    mend_bits: MendBitsOpt = False
    redact: Annotated[
        bool,
        typer.Option(
            "--redact", help="Leave out records of the cluster's metadata that hold credentials or secrets."
        ),
    ] = False

    def reading(self, chosen: RecordFilter, common: CommonOptions) -> RecordReading:
        """Return the reading that the options describe. Raises UsageError."""
        from kafkatool.commands.line.arguments import parse_size
        from kafkatool.commands.records.reading import RecordReading

        return RecordReading(
            chosen=replace(chosen, leaves_out_secrets=self.redact),
            show_all=self.show_all,
            max_batch_size=parse_size(self.max_batch_size),
            high_watermark=self._high_watermark(),
            guest=common.guest(mends_bits=self.mend_bits),
            talk=common.talk(),
        )

    def _high_watermark(self) -> int | None:
        from kafkatool.commands.line.arguments import parse_high_watermark
        from kafkatool.engine.records.visibility import LOG_END

        wanted = parse_high_watermark(self.high_watermark)
        if isinstance(wanted, int):
            return wanted
        return None if wanted == "checkpoint" else LOG_END
