"""`kafkatool cat`: print the records of a log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.options import (
    BytesOpt,
    CommonOptions,
    FailOnOpt,
    FileOptions,
    PathOptions,
    epilog,
    severity,
)
from kafkatool.commands.line.record_options import RecordOptions
from kafkatool.commands.records.visible_options import VisibleOptions
from kafkatool.commands.screen.values import BytesFormat, bytes_text
from kafkatool.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from kafkatool.commands.cat.output import Printer
    from kafkatool.commands.records.reading import RecordReading
    from kafkatool.engine.records.decoder_process import DecoderProcess

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


class CatFormat(StrEnum):
    payload = "payload"
    ndjson = "ndjson"


def cat(
    where: FileOptions,
    *,
    fmt: Annotated[
        CatFormat, typer.Option("--format", help="payload: each value and a newline.")
    ] = CatFormat.payload,
    template: Annotated[
        str | None,
        typer.Option(
            "-f",
            "--template",
            metavar="TEMPLATE",
            help="As in kcat: %t topic, %p partition, %o offset, %k key, %s value, %K %S their sizes, %R "
            "the value's size as int32, %T time, %h headers, \\n \\t \\xHH. Nothing is added after it.",
        ),
    ] = None,
    write_null: Annotated[
        bool,
        typer.Option("-Z", "--print-null", help="Write NULL for a null key or value instead of nothing."),
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait for more records at the end, until interrupted.")
    ] = False,
    decoder: Annotated[
        str | None,
        typer.Option(
            "--decoder",
            metavar="CMD",
            help="Decode keys and values with a program. For each record it reads and writes the key and "
            "the value, each as an int32 length (big-endian, -1 for null) followed by the bytes.",
        ),
    ] = None,
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
    if template is not None and fmt is not CatFormat.payload:
        raise UsageError("-f is a format of its own: leave --format out")
    least = severity(fail_on)
    reading = visible.reading(chosen.filter(), common)
    _print(where, chosen, follow, reading, _CatOutput(fmt, template, write_null, decoder, how))
    reading.conclude()
    if reading.shown == 0 and not reading.takes_everything and not reading.outcome.failed:
        reading.talk.warn("nothing matches")
        raise typer.Exit(ExitCode.USAGE)
    raise typer.Exit(reading.outcome.exit_code(least))


@dataclass(frozen=True, slots=True)
class _CatOutput:
    """How records are written."""

    fmt: CatFormat
    template: str | None
    write_null: bool
    decoder: str | None
    how: BytesFormat

    def printer(self, reading: RecordReading, decoder: DecoderProcess | None) -> Printer:
        from kafkatool.commands.cat.output import NdjsonPrinter, PayloadPrinter, TemplatePrinter
        from kafkatool.commands.cat.template import NULL, compile_template

        if self.fmt is CatFormat.ndjson:
            return NdjsonPrinter(self.how, reading, decoder)
        is_plain = self.how is BytesFormat.utf8 and not self.write_null
        if self.template is None and decoder is None and is_plain:
            return PayloadPrinter()
        text = "%s\\n" if self.template is None else self.template
        null = NULL if self.write_null else b""
        template = compile_template(text, null=null, written=self._written(), guard=self._guard())
        return TemplatePrinter(template, reading, decoder)

    def _written(self) -> Callable[[bytes], bytes]:
        """Return how payloads are written: unchanged, as hex or base64, or with escapes on a terminal."""
        if self.how is BytesFormat.utf8:
            return self._guard()
        return lambda raw: bytes_text(raw, self.how).encode()

    def _guard(self) -> Callable[[bytes], bytes]:
        from kafkatool.commands.screen.terminal_text import harmless_bytes, is_terminal
        from kafkatool.commands.screen.values import stdout

        return harmless_bytes if is_terminal(stdout()) else bytes

    def child(self, largest: int) -> AbstractContextManager[DecoderProcess | None]:
        from kafkatool.engine.records.decoder_process import DecoderProcess

        return nullcontext() if self.decoder is None else DecoderProcess(self.decoder, largest=largest)


def _print(
    where: PathOptions, chosen: RecordOptions, follow: bool, reading: RecordReading, output: _CatOutput
) -> None:
    from kafkatool.commands.records.rounds import Rounds

    output.printer(reading, None)  # a wrong template is an error before anything is read
    with _with_stdin(where, reading, follow) as where, output.child(reading.max_batch_size) as decoder:
        subjects = reading.subjects(where)
        printer = output.printer(reading, decoder)
        rounds = Rounds(reading, printer, chosen.limit)
        if follow:
            rounds.for_ever(subjects, chosen.tail, printer.flush)
        else:
            rounds.once(subjects, chosen.tail)
        printer.flush()


@contextmanager
def _with_stdin(where: PathOptions, reading: RecordReading, follow: bool) -> Iterator[PathOptions]:
    """Yield the paths, with a file in place of `-`: the end of a transaction comes after its records."""
    from kafkatool.engine.files.stdin_log import STDIN, stdin_as_log

    paths = where.paths or []
    if STDIN not in paths:
        yield where
        return
    if follow or where.files_from == STDIN:
        raise UsageError("- (standard input) makes no sense here")
    with stdin_as_log() as path:
        reading.stdin = path
        yield replace(where, paths=[path if one == STDIN else one for one in paths])
