"""`kafkatool cat`: print the records of a log."""

from __future__ import annotations

import typer

from kafkatool.commands.cat.options import CatOptions
from kafkatool.commands.line.options import (
    BytesOpt,
    CommonOptions,
    FailOnOpt,
    FileOptions,
    epilog,
    severity,
)
from kafkatool.commands.line.record_options import RecordOptions
from kafkatool.commands.records.visible_options import VisibleOptions
from kafkatool.commands.screen.values import BytesFormat
from kafkatool.errors import ExitCode

EPILOG = epilog(
    {
        "kafkatool cat /var/lib/kafka/data/orders-0": "values, one per line, as a consumer would get them",
        "kafkatool cat -f '%o %k %s\\n' --from now-2h orders-0": "offset, key and value of two hours",
        "kafkatool cat --format ndjson --all orders-0 | jq 'select(.txn == \"aborted\")'": (
            "what was aborted"
        ),
        "kafkatool cat --follow --tail 10 orders-0": "the last ten, and every new one",
        "kafkatool cat --decoder './avro-to-json' --key user-17 orders-0": "decoded by your own program",
    },
    4,
)


def cat(
    where: FileOptions,
    *,
    output: CatOptions,
    chosen: RecordOptions,
    visible: VisibleOptions,
    how: BytesOpt = BytesFormat.utf8,
    fail_on: FailOnOpt = "degraded",
    common: CommonOptions,
) -> None:
    """Print the records of a log, by default those that a read_committed consumer would get.

    Hidden are records of aborted and open transactions, control records, and records above the high watermark
    or below the log start; stderr says how many each rule hid. --all prints the whole log. The outcome of a
    transaction is read from the log itself, so no index is needed.
    """
    from kafkatool.commands.cat.output import print_records

    output.refuse_nonsense()
    least = severity(fail_on)
    reading = visible.reading(chosen.filter(), common)
    print_records(where, chosen, reading, output, how)
    reading.conclude()
    if reading.shown == 0 and not reading.takes_everything and not reading.outcome.failed:
        reading.talk.warn("nothing matches")
        raise typer.Exit(ExitCode.USAGE)
    raise typer.Exit(reading.outcome.exit_code(least))
