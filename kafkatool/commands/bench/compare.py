"""`kafkatool bench compare`: what changed between two results, beyond noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.options import FormatOpt, RawOpt, TalkOptions, epilog
from kafkatool.commands.rows.bench import CHANGE_COLUMNS, CHANGES
from kafkatool.commands.screen.table import rows
from kafkatool.commands.screen.values import Format
from kafkatool.errors import ExitCode

if TYPE_CHECKING:
    from kafkatool.engine.bench.compare import MeasuredChange

EPILOG = epilog(
    {
        "kafkatool bench compare before.json after.json": "every number, and whether it changed",
        "kafkatool bench compare --changed before.json after.json": "only what changed",
        "kafkatool bench compare --format ndjson a.json b.json | jq '.verdict // empty'": "for a script",
    }
)


def bench_compare(
    before: Annotated[str, typer.Argument(metavar="A.json", help="The earlier result, written with -o.")],
    after: Annotated[str, typer.Argument(metavar="B.json", help="The later result.")],
    *,
    changed: Annotated[bool, typer.Option("--changed", help="Show only what changed.")] = False,
    fmt: FormatOpt = Format.table,
    raw: RawOpt = False,
    common: TalkOptions,
) -> None:
    """Show what changed by more than noise: by three standard errors of the samples and at least 1%.

    Numbers without samples count as changed from 10% on. Differences in machine and settings are shown first.
    """
    from kafkatool.engine.bench.compare import compare, differences, read_result

    talk = common.talk()
    one, two = read_result(before), read_result(after)
    for name, was, is_now in differences(one, two):
        talk.note(f"{name} differs: {was} before, {is_now} after")
    found = list(compare(one, two))
    with rows(fmt, CHANGE_COLUMNS) as out:
        for change in found:
            if changed and change.verdict == "same":
                continue
            out.write(_row(change, fmt, raw=raw))
    if not found:
        talk.warn("the two have no number in common; they are results of different benchmarks")
    raise typer.Exit(ExitCode.OK if found else ExitCode.USAGE)


def _row(change: MeasuredChange, fmt: Format, *, raw: bool) -> dict[str, object]:
    from kafkatool.commands.bench.output import number

    row = CHANGES.row(change)
    if fmt is Format.ndjson:
        return row
    return row | {
        "before_text": number(change.before, raw=raw),
        "after_text": number(change.after, raw=raw),
        "change_text": None if change.share is None else f"{100 * change.share:+.1f}%",
        "noise_text": None if change.noise is None else f"±{100 * change.noise:.1f}%",
    }
