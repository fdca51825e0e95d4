"""`kafkatool lookup`: where an offset or a time is, and how a broker finds it."""

from __future__ import annotations

import typer

from kafkatool.commands.line.options import (
    CommonOptions,
    FailOnOpt,
    FileOptions,
    FormatOpt,
    RawOpt,
    epilog,
    severity,
)
from kafkatool.commands.lookup.options import LookupOptions
from kafkatool.commands.screen.outcome import RunOutcome
from kafkatool.commands.screen.values import Format
from kafkatool.errors import ExitCode, UsageError

EPILOG = epilog(
    {
        "kafkatool lookup --offset 1234567 /var/lib/kafka/data/orders-0": "the batch that holds an offset",
        "kafkatool lookup --time 2026-01-02T03:04:05Z orders-0": "the first record at or after a time",
        "kafkatool lookup --time now-2h --explain orders-0": "the same, with every step of the search",
        "kafkatool lookup --time now-1d --format ndjson /var/lib/kafka/data": "for every partition of a disk",
    },
    4,
)


def lookup(
    where: FileOptions,
    how: LookupOptions,
    *,
    fmt: FormatOpt = Format.table,
    raw: RawOpt = False,
    fail_on: FailOnOpt = "degraded",
    common: CommonOptions,
) -> None:
    """Find an offset or a time in a partition as a broker does, through its indexes.

    The answer is the batch that a fetch would start with, and the first record asked for. For a time a broker
    takes the first match in the first segment whose greatest timestamp reaches it; timestamps out of order
    can hide earlier matches from it, which --explain shows. Damage on the way is reported: a broker checks no
    checksums here, and does not find what follows a broken length.
    """
    from kafkatool.commands.lookup.telling import LookupTelling
    from kafkatool.engine.directory.log_dir import ListingProblem
    from kafkatool.engine.directory.lookups import look_up
    from kafkatool.engine.directory.named_file import SEGMENT_FILES

    how.refuse_nonsense(fmt)
    talk, outcome = common.talk(), RunOutcome()
    expansion = where.expand(readable=SEGMENT_FILES)
    request, guest, least = how.request(), common.guest(), severity(fail_on)
    problems: list[ListingProblem] = []
    telling = LookupTelling(talk, outcome, guest, fmt, raw)
    telling.tell(look_up(expansion.targets, request, guest, problems), explain=how.explain)
    if not telling.searches and not problems:
        raise UsageError("no log in there: name a log, a partition or a log directory")
    outcome.fail(talk, expansion.problems)
    outcome.fail(talk, [f"{one.path}: {one.message}" for one in problems if not one.vanished])
    if not telling.answers and not telling.below:
        talk.warn(f"nothing at or after {how.words}")
    code = outcome.exit_code(least)
    raise typer.Exit(code if telling.answers or code is not ExitCode.OK else ExitCode.USAGE)
