"""What the benchmarks share: their options, the table of their numbers, and --out."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkatool.commands.line.options import RawOpt, TalkOptions
from kafkatool.commands.rows.bench import METRIC_COLUMNS, METRICS
from kafkatool.commands.screen.table import rows
from kafkatool.commands.screen.values import Format, takes_escapes

if TYPE_CHECKING:
    from kafkatool.engine.bench.compare import Metric
    from kafkatool.engine.bench.place import BenchPlace

DirArg = Annotated[
    str,
    typer.Argument(
        metavar="DIR",
        help="Directory to write to, on the volume to measure. It must be empty or not exist.",
    ),
]
_SPARKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class BenchOptions(TalkOptions):
    """Where results are written, and whether the written logs are kept."""

    out: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            "--out",
            metavar="FILE",
            help="Write the whole result as one JSON object, for compare.",
        ),
    ] = None
    keep: Annotated[bool, typer.Option("--keep", help="Keep the logs that were written.")] = False
    on_live_volume: Annotated[
        bool, typer.Option("--on-live-volume", help="Run even if a broker uses the same volume.")
    ] = False
    raw: RawOpt = False

    @property
    def shows_progress(self) -> bool:
        return not self.quiet and not self.no_progress and takes_escapes(sys.stderr)

    def finish(
        self,
        kind: str,
        place: BenchPlace,
        settings: dict[str, Any],
        metrics: Sequence[Metric],
        timeline: Sequence[Any],
    ) -> None:
        """Write --out, if it was given."""
        from kafkatool.engine.bench.place import machine, write_result

        if self.out is not None:
            result: dict[str, object] = {
                "kind": "bench",
                "bench": kind,
                "machine": machine(place.path),
                "settings": settings,
                "metrics": [metric.as_json() for metric in metrics],
                "timeline": list(timeline),
            }
            write_result(self.out, result)


def write_metrics(metrics: Iterable[Metric], fmt: Format, *, raw: bool) -> None:
    with rows(fmt, METRIC_COLUMNS) as out:
        for metric in metrics:
            row = METRICS.row(metric)
            if fmt is not Format.ndjson:
                row["text"] = number(metric.value, raw=raw)
                row["spread"] = sparkline(metric.samples) if len(metric.samples) > 2 else ""
            out.write(row)


def number(value: float, *, raw: bool = False) -> str:
    """Format a number with three significant digits and commas; with `raw`, all digits."""
    if raw:
        return str(value)
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """Draw the last values as a line of bars, the greatest of them full."""
    shown = list(values)[-width:]
    most = max(shown, default=0.0)
    if most <= 0:
        return ""
    return "".join(_SPARKS[min(7, int(8 * max(0.0, value) / most))] for value in shown)
