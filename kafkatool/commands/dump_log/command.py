"""`kafkatool dump-log`: every file a broker writes, in Kafka's own text or as rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkatool.commands.dump_log.options import DumpFormat, KafkaOptions
from kafkatool.commands.line.command_line import Command
from kafkatool.commands.line.options import (
    BytesOpt,
    CommonOptions,
    FailOnOpt,
    FileOptions,
    RawOpt,
    epilog,
    severity,
)
from kafkatool.commands.line.record_options import RecordOptions
from kafkatool.commands.screen.values import BytesFormat, Format
from kafkatool.errors import ExitCode

if TYPE_CHECKING:
    from kafkatool.commands.dump_log.request import DumpRequest
    from kafkatool.commands.screen.outcome import RunOutcome

EPILOG = epilog(
    {
        "kafkatool dump-log --files 00000000000000000000.log": "A segment's batches, as Kafka lists them",
        "kafkatool dump-log --print-data-log --from now-2h orders-0": "Two hours of a partition, with values",
        "kafkatool dump-log --format ndjson DIR | jq 'select(.is_valid == false)'": (
            "The damaged batches of a whole disk"
        ),
        "kafkatool dump-log --format table --key user-17 --tail 5 'orders-*'": (
            "The last five records of one key, per partition"
        ),
        "kafkatool dump-log --cluster-metadata-decoder --redact __cluster_metadata-0": (
            "The cluster's metadata, without its secrets"
        ),
    },
    4,
)


_OPTIONAL_VALUES = {
    "--key-decoder-class": "org.apache.kafka.tools.api.StringDecoder",
    "--value-decoder-class": "org.apache.kafka.tools.api.StringDecoder",
}


class KafkaArguments(Command):
    """Accepts options without their optional value, as kafka-dump-log does; Typer has no such feature."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        filled: list[str] = []
        for at, word in enumerate(args):
            filled.append(word)
            if word in _OPTIONAL_VALUES and (at + 1 == len(args) or args[at + 1].startswith("-")):
                filled.append(_OPTIONAL_VALUES[word])
        return super().parse_args(ctx, filled)


COMMAND_CLASS = KafkaArguments


def dump_log(
    where: FileOptions,
    *,
    files: Annotated[
        str | None,
        typer.Option("--files", metavar="A,B,...", help="Comma-separated files."),
    ] = None,
    fmt: Annotated[
        DumpFormat, typer.Option("--format", help="Output format; kafka is the text of kafka-dump-log.")
    ] = DumpFormat.kafka,
    kafka: KafkaOptions,
    chosen: RecordOptions,
    how: BytesOpt = BytesFormat.utf8,
    raw: RawOpt = False,
    fail_on: FailOnOpt = "degraded",
    common: CommonOptions,
) -> None:
    """Show the content of Kafka's files: logs, indexes, snapshots, checkpoints.

    Takes every flag of kafka-dump-log and by default prints its text byte for byte. Continues after damage,
    which is reported on stderr and by the exit code. A directory stands for its logs and metadata snapshots.
    """
    from kafkatool.commands.dump_log.finding import files_to_dump, identify_listed
    from kafkatool.commands.dump_log.request import DumpRequest
    from kafkatool.commands.screen.outcome import RunOutcome

    kafka.refuse_other_formats(fmt)
    request = DumpRequest(
        classic=kafka.classic(common.guest()),
        talk=common.talk(),
        chosen=chosen.filter(),
        limit=chosen.limit,
        tail=chosen.tail,
        raw=raw,
        how=how,
    )
    outcome = RunOutcome()
    listed = files.split(",") if files else []
    if fmt is not DumpFormat.kafka or where.read_as is not None:
        identify_listed(listed, where.read_as, request)
    groups = files_to_dump(listed, where, request, outcome)
    shown = _dump(fmt, listed, groups, request, outcome)
    if shown == 0 and not request.takes_everything and not outcome.failed:
        request.talk.warn("nothing matches")
        raise typer.Exit(ExitCode.USAGE)
    for path in outcome.unread:
        request.talk.warn(
            f"{path}: nothing was read: Kafka's text format has no form for it, other formats may"
        )
    raise typer.Exit(outcome.exit_code(severity(fail_on)))


def _dump(
    fmt: DumpFormat, listed: list[str], groups: Iterator[list[str]], request: DumpRequest, outcome: RunOutcome
) -> int:
    if fmt is DumpFormat.kafka:
        from kafkatool.commands.dump_log.text import TextDump

        return TextDump(request, outcome, listed).dump(groups)
    from kafkatool.commands.dump_log.rows import RowDump

    return RowDump(request, Format(fmt), outcome).dump(groups)
