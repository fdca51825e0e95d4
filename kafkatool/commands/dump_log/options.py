"""The options of `dump-log`: those of kafka-dump-log, and the format."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.options import RELEASES
from kafkatool.errors import UsageError

if TYPE_CHECKING:
    from kafkatool.commands.dump_log.classic.options import ClassicOptions
    from kafkatool.engine.files.source import Guest
    from kafkatool.format.schema import Decoder


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

    def refuse_other_formats(self, fmt: DumpFormat) -> None:
        """Check that the flags fit the format. Raises UsageError."""
        is_only_text = self.verify_index_only or self.index_sanity_check or self.skip_record_metadata
        if fmt is not DumpFormat.kafka and is_only_text:
            raise UsageError(
                "--verify-index-only, --index-sanity-check and --skip-record-metadata belong to "
                "--format kafka"
            )

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
