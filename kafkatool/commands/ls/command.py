"""`kafkatool ls`: what is in a log directory, how much of it, and where the space went."""

from __future__ import annotations

import typer

from kafkatool.commands.line.options import CommonOptions, FileOptions, FormatOpt, RawOpt, epilog
from kafkatool.commands.ls.options import ListingOptions
from kafkatool.commands.screen.outcome import RunOutcome
from kafkatool.commands.screen.values import Format
from kafkatool.errors import UsageError

EPILOG = epilog(
    {
        "kafkatool ls /var/lib/kafka/data": "every partition, with offsets, times and sizes",
        "kafkatool ls --topics --sort size server.properties": "the topics of a broker, the largest first",
        "kafkatool ls --segments /var/lib/kafka/data/orders-0": "the segments of one partition",
        "kafkatool ls --space /var/lib/kafka/data": "where the space of the disk went",
        "kafkatool ls --format ndjson --state stray DIR | jq -r '.directory // empty'": (
            "partitions without an owner (stray)"
        ),
    }
)


def ls(
    where: FileOptions,
    how: ListingOptions,
    *,
    fmt: FormatOpt = Format.table,
    raw: RawOpt = False,
    common: CommonOptions,
) -> None:
    """List topics, partitions, segments and files with their offset and time ranges and sizes.

    SIZE is the length of the files, ALLOCATED what they take on the disk: preallocated indexes are sparse.
    Deleted, stray and future partitions and leftovers of the log cleaner are listed and counted like all
    others. Nothing is changed, and the page cache is left as it was.
    """
    from kafkatool.commands.ls.telling import ListingTelling
    from kafkatool.engine.directory.listing import list_places
    from kafkatool.format.kinds import ALL

    expansion = where.expand(readable=ALL)
    view = how.view(expansion.targets)
    guest, talk, outcome = common.guest(), common.talk(), RunOutcome()
    states = how.states()
    telling = ListingTelling(talk, outcome, guest, fmt, raw)
    listed = list_places(expansion.targets, guest)
    telling.problems(listed.problems)
    if states:
        listed = listed.only(states)
        if not listed.places:
            raise UsageError(f"no partition is {' or '.join(states)}")
    outcome.fail(talk, expansion.problems)
    telling.show(listed, view, how.order(), how.limit)
    raise typer.Exit(outcome.exit_code())
