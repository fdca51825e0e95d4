"""How `cat` writes records: payloads in bulk, templates and NDJSON one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Protocol

import numpy as np

from kafkatool.commands.cat.template import RecordOrigin, Template
from kafkatool.commands.records.lines import RecordLines
from kafkatool.commands.records.reading import RecordReading, Rows
from kafkatool.commands.screen.terminal_text import harmless_bytes, is_terminal
from kafkatool.commands.screen.values import BytesFormat, stdout
from kafkatool.engine.batches.scan import Batch
from kafkatool.engine.records.decoder_process import DecoderProcess
from kafkatool.engine.records.stream import RecordPiece, records_of
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
