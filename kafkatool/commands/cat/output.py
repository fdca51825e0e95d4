"""How `cat` writes records: payloads in bulk, templates and NDJSON one by one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import BinaryIO, Protocol

import numpy as np

from kafkatool.commands.cat.options import CatFormat, CatOptions
from kafkatool.commands.cat.template import NULL, RecordOrigin, Template, Written, compile_template
from kafkatool.commands.line.options import PathOptions
from kafkatool.commands.line.record_options import RecordOptions
from kafkatool.commands.records.lines import RecordLines
from kafkatool.commands.records.reading import RecordReading, Rows
from kafkatool.commands.records.rounds import Rounds
from kafkatool.commands.screen.terminal_text import harmless_bytes, is_terminal
from kafkatool.commands.screen.values import BytesFormat, bytes_text, stdout
from kafkatool.engine.batches.scan import Batch
from kafkatool.engine.files.stdin_log import STDIN, stdin_as_log
from kafkatool.engine.records.decoder_process import DecoderProcess
from kafkatool.engine.records.stream import RecordPiece, records_of
from kafkatool.errors import UsageError
from kafkatool.format.field_bytes import gather_fields
from kafkatool.format.record import Record

_NEWLINE = 10


class Printer(Protocol):
    """Writes some of a piece's records to standard output."""

    def write(self, piece: RecordPiece, rows: Rows) -> None: ...

    def flush(self) -> None: ...


class _Binary:
    """Unchanged bytes; on a terminal, with control characters as escapes."""

    def __init__(self) -> None:
        out = stdout()
        out.flush()
        self._out: BinaryIO = out.buffer
        self._is_terminal = is_terminal(out)

    def put(self, data: bytes | memoryview) -> None:
        self._out.write(harmless_bytes(bytes(data)) if self._is_terminal else data)

    def flush(self) -> None:
        self._out.flush()


class PayloadPrinter(_Binary):
    """Every value and a newline, without a step per record."""

    def write(self, piece: RecordPiece, rows: Rows) -> None:
        columns = piece.columns
        values, ends = gather_fields(columns.data, columns.value_start[rows], columns.value_size[rows])
        lines = np.empty(len(values) + len(rows), dtype=np.uint8)
        newlines = ends + np.arange(len(rows))
        is_value = np.ones(len(lines), dtype=np.bool_)
        is_value[newlines] = False
        lines[is_value] = np.frombuffer(values, dtype=np.uint8)
        lines[newlines] = _NEWLINE
        self.put(lines.data)


class TemplatePrinter(_Binary):
    """As a template says; its own control characters were typed by the user and are kept."""

    def __init__(self, template: Template, reading: RecordReading, decoder: DecoderProcess | None) -> None:
        super().__init__()
        self._template = template
        self._reading = reading
        self._decoder = decoder

    def write(self, piece: RecordPiece, rows: Rows) -> None:
        place = self._reading.place(piece.log.path)
        topic = "" if place.topic is None else place.topic
        partition = -1 if place.partition is None else place.partition
        origin = RecordOrigin(topic.encode("utf-8", "surrogateescape"), b"%d" % partition)
        template = self._template
        found = decoded(piece, rows, self._decoder)
        self._out.write(b"".join([template(origin, record) for _row, _batch, record in found]))


class NdjsonPrinter(_Binary):
    """One row per record, with everything that is known about it."""

    def __init__(self, how: BytesFormat, reading: RecordReading, decoder: DecoderProcess | None) -> None:
        super().__init__()
        self._lines = RecordLines(how)
        self._reading = reading
        self._decoder = decoder

    def write(self, piece: RecordPiece, rows: Rows) -> None:
        place = self._reading.place(piece.log.path)
        self.put(self._lines.text(place, piece, decoded(piece, rows, self._decoder)))


def decoded(
    piece: RecordPiece, rows: Rows, decoder: DecoderProcess | None
) -> Iterator[tuple[int, Batch, Record]]:
    """Return the records one by one, with keys and values as the decoder returned them."""
    found = records_of(piece, rows)
    if decoder is None:
        return found
    return _through(list(found), decoder)


def _through(
    found: list[tuple[int, Batch, Record]], decoder: DecoderProcess
) -> Iterator[tuple[int, Batch, Record]]:
    pairs = decoder.decode([(record.key, record.value) for _row, _batch, record in found])
    for (row, batch, record), (key, value) in zip(found, pairs, strict=True):
        yield row, batch, record._replace(key=key, value=value)


def print_records(
    where: PathOptions, chosen: RecordOptions, reading: RecordReading, output: CatOptions, how: BytesFormat
) -> None:
    """Print the chosen records; with --follow, until interrupted. Raises UsageError."""
    _printer(output, how, reading, None)  # a wrong template is an error before anything is read
    with _with_stdin(where, reading, output.follow) as where, _child(output, reading) as decoder:
        subjects = reading.subjects(where)
        printer = _printer(output, how, reading, decoder)
        rounds = Rounds(reading, printer, chosen.limit)
        if output.follow:
            rounds.for_ever(subjects, chosen.tail, printer.flush)
        else:
            rounds.once(subjects, chosen.tail)
        printer.flush()


def _child(output: CatOptions, reading: RecordReading) -> AbstractContextManager[DecoderProcess | None]:
    if output.decoder is None:
        return nullcontext()
    return DecoderProcess(output.decoder, largest=reading.max_batch_size)


def _printer(
    output: CatOptions, how: BytesFormat, reading: RecordReading, decoder: DecoderProcess | None
) -> Printer:
    if output.fmt is CatFormat.ndjson:
        return NdjsonPrinter(how, reading, decoder)
    is_plain = how is BytesFormat.utf8 and not output.write_null
    if output.template is None and decoder is None and is_plain:
        return PayloadPrinter()
    text = "%s\\n" if output.template is None else output.template
    null = NULL if output.write_null else b""
    guard = harmless_bytes if is_terminal(stdout()) else bytes
    template = compile_template(text, null=null, written=_written(how, guard), guard=guard)
    return TemplatePrinter(template, reading, decoder)


def _written(how: BytesFormat, guard: Written) -> Written:
    """Return how payloads are written: unchanged, as hex or base64, or with escapes on a terminal."""
    if how is BytesFormat.utf8:
        return guard
    return lambda raw: bytes_text(raw, how).encode()


@contextmanager
def _with_stdin(where: PathOptions, reading: RecordReading, follow: bool) -> Iterator[PathOptions]:
    """Yield the paths, with a file in place of `-`: the end of a transaction comes after its records."""
    paths = where.paths or []
    if STDIN not in paths:
        yield where
        return
    if follow or where.files_from == STDIN:
        raise UsageError("- (standard input) makes no sense here")
    with stdin_as_log() as path:
        reading.stdin = path
        yield replace(where, paths=[path if one == STDIN else one for one in paths])
