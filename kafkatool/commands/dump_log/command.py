"""`kafkatool dump-log`: every file a broker writes, in Kafka's own text or as rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkatool.commands.line.command_line import Command
from kafkatool.commands.line.options import (
    RELEASES,
    BytesOpt,
    CommonOptions,
    FailOnOpt,
    FileOptions,
    PathOptions,
    RawOpt,
    epilog,
)
from kafkatool.commands.line.record_options import RecordOptions
from kafkatool.commands.screen.values import BytesFormat, Format
from kafkatool.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from kafkatool.commands.dump_log.classic.options import ClassicOptions
    from kafkatool.commands.dump_log.request import DumpRequest
    from kafkatool.commands.screen.outcome import RunOutcome
    from kafkatool.engine.files.source import Guest
    from kafkatool.format.schema import Decoder

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


class DumpFormat(StrEnum):
    kafka = "kafka"
    table = "table"
    ndjson = "ndjson"
    csv = "csv"


def _flag(name: str, text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(name, help=text)
    return option


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """The flags of kafka-dump-log, and a few others that affect its text."""

    compat: Annotated[
        str, typer.Option("--compat", metavar=RELEASES, help="Print the text as this release does.")
    ] = "4.3"
    print_data_log: Annotated[bool, _flag("--print-data-log", "Show keys and values.")] = False
    deep_iteration: Annotated[bool, _flag("--deep-iteration", "Show records, not only batches.")] = False
    verify_index_only: Annotated[
        bool, _flag("--verify-index-only", "Check indexes against their log, print no entries.")
    ] = False
    index_sanity_check: Annotated[
        bool, _flag("--index-sanity-check", "Only the check of indexes that a broker has.")
    ] = False
    max_message_size: Annotated[
        int,
        typer.Option(
            "--max-message-size",
            metavar="BYTES",
            help="Read the log in pieces of this size when checking an index.",
        ),
    ] = 5 << 20
    max_bytes: Annotated[
        int, typer.Option("--max-bytes", metavar="BYTES", help="Read only this many bytes of each log.")
    ] = 0x7FFFFFFF
    offsets_decoder: Annotated[bool, _flag("--offsets-decoder", "Decode __consumer_offsets.")] = False
    transaction_log_decoder: Annotated[
        bool, _flag("--transaction-log-decoder", "Decode __transaction_state.")
    ] = False
    cluster_metadata_decoder: Annotated[
        bool, _flag("--cluster-metadata-decoder", "Decode __cluster_metadata.")
    ] = False
    remote_log_metadata_decoder: Annotated[
        bool, _flag("--remote-log-metadata-decoder", "Decode __remote_log_metadata.")
    ] = False
    share_group_state_decoder: Annotated[
        bool, _flag("--share-group-state-decoder", "Decode __share_group_state.")
    ] = False
    skip_record_metadata: Annotated[
        bool, _flag("--skip-record-metadata", "Payloads only, without what stands before them.")
    ] = False
    key_decoder_class: Annotated[
        str | None,
        typer.Option(
            "--key-decoder-class",
            metavar="CLASS",
            help="Kafka's String, Integer, Long or Default decoder.",
        ),
    ] = None
    value_decoder_class: Annotated[
        str | None,
        typer.Option("--value-decoder-class", metavar="CLASS", help="The same for values."),
    ] = None
    max_batch_size: Annotated[
        str,
        typer.Option("--max-batch-size", metavar="SIZE", help="Largest batch to read, compressed or not."),
    ] = "64M"
    redact: Annotated[
        bool, _flag("--redact", "Hide credentials in metadata: SCRAM, tokens, sensitive configs.")
    ] = False

    @property
    def is_only_of_kafkas_text(self) -> bool:
        return self.verify_index_only or self.index_sanity_check or self.skip_record_metadata

    @property
    def decoder(self) -> Decoder | None:
        """The chosen decoder; of several flags the first in Kafka's order counts."""
        from kafkatool.format.schema import Decoder

        flags = (
            self.offsets_decoder,
            self.transaction_log_decoder,
            self.cluster_metadata_decoder,
            self.remote_log_metadata_decoder,
            self.share_group_state_decoder,
        )
        return next((decoder for decoder, chosen in zip(Decoder, flags, strict=True) if chosen), None)

    def classic(self, guest: Guest) -> ClassicOptions:
        """Return the options of the text dump. Raises UsageError."""
        from kafkatool.commands.dump_log.classic.options import ClassicOptions
        from kafkatool.commands.line.arguments import parse_size
        from kafkatool.format.release import Release

        largest = parse_size(self.max_batch_size)
        return ClassicOptions(
            release=Release.parse(self.compat),
            print_data_log=self.print_data_log,
            deep_iteration=self.deep_iteration,
            verify_index_only=self.verify_index_only,
            index_sanity_check=self.index_sanity_check,
            max_message_size=self.max_message_size,
            max_bytes=self.max_bytes,
            skip_record_metadata=self.skip_record_metadata,
            decoder=self.decoder,
            key_decoder=self.key_decoder_class,
            value_decoder=self.value_decoder_class,
            redact=self.redact,
            max_batch_size=largest,
            max_inflated=largest,
            guest=guest,
        )


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
    from kafkatool.commands.dump_log.request import DumpRequest
    from kafkatool.commands.line.options import severity
    from kafkatool.commands.screen.outcome import RunOutcome

    if fmt is not DumpFormat.kafka and kafka.is_only_of_kafkas_text:
        raise UsageError(
            "--verify-index-only, --index-sanity-check and --skip-record-metadata belong to --format kafka"
        )
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
        _identify(listed, where.read_as, request)
    groups = _groups(listed, where, request, outcome)
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


def _identify(listed: list[str], read_as: str | None, request: DumpRequest) -> None:
    """Identify the files named with --files by content; Kafka's own text goes by their extensions."""
    from os.path import isfile

    from kafkatool.engine.directory.named_file import identify, parse_read_as

    for path in filter(isfile, listed):
        found = identify(path, parse_read_as(read_as), offers_read_as=True)
        if found is not None:
            request.read_as[path] = found.kind


def _groups(
    listed: list[str], where: PathOptions, request: DumpRequest, outcome: RunOutcome
) -> Iterator[list[str]]:
    """Yield what to dump: files named with --files, unchanged, then what the paths stand for."""
    from kafkatool.commands.screen.told import told
    from kafkatool.engine.directory.log_groups import log_groups
    from kafkatool.engine.directory.selection import Selection
    from kafkatool.engine.directory.targets import FileTarget

    outcome.named.update(listed)
    yield from ([path] for path in listed)
    if listed and not where.paths and where.files_from is None:
        return

    expansion = where.expand(allow_stdin=True)
    for target in expansion.targets:
        if isinstance(target, FileTarget) and target.read_as is not None:
            request.read_as[target.path] = target.read_as.kind
    outcome.fail(request.talk, expansion.problems)
    outcome.named.update(target.path for target in expansion.targets)
    selection = Selection(expansion.targets, request.classic.guest)
    yield from told(log_groups(selection, request.chosen.wanted), request.talk, outcome)
