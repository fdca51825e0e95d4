"""Writers of record files, one per format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kafkatool.commands.records.lines import RecordLines
from kafkatool.commands.records.reading import RecordReading, Rows, visible_row
from kafkatool.commands.records.visible_options import ExportFormat
from kafkatool.commands.screen.values import BytesFormat, csv_line
from kafkatool.engine.files.whole_files import Replacement
from kafkatool.engine.records.stream import RecordPiece, records_of

CSV_KEYS = (
    *("topic", "partition", "offset", "timestamp_ms", "timestamp_type", "key", "value", "headers"),
    *("sequence", "producer_id", "producer_epoch", "partition_leader_epoch", "batch_position"),
)
VISIBILITY_KEYS = ("is_control", "txn", "above_high_watermark", "below_log_start")


class ExportWriter(Protocol):
    """A file that is being written."""

    def write(self, piece: RecordPiece, rows: Rows) -> None: ...

    def close(self) -> None: ...


Opener = Callable[[Replacement], ExportWriter]


def opener(
    fmt: ExportFormat, topics: Sequence[str], how: BytesFormat, reading: RecordReading, *, is_csv_safe: bool
) -> Opener:
    """Return a function that opens a writer for a sink. Raises KafkatoolError if a library is missing."""
    if fmt is ExportFormat.csv:
        return lambda sink: _CsvWriter(sink, how, reading, is_csv_safe)
    if fmt is ExportFormat.ndjson:
        return lambda sink: _NdjsonWriter(sink, how, reading)
    from kafkatool.engine.records.arrow_rows import ArrowFile, ArrowRows, ParquetFile

    rows = ArrowRows(topics, with_visibility=reading.show_all)
    file = ParquetFile if fmt is ExportFormat.parquet else ArrowFile
    return lambda sink: _ColumnWriter(file(sink, rows.schema), rows, reading)


@dataclass(slots=True)
class _ColumnWriter:
    file: Any
    rows: Any
    reading: RecordReading

    def write(self, piece: RecordPiece, rows: Rows) -> None:
        place = self.reading.place(piece.log.path)
        self.file.write(self.rows.batch(piece, rows, place.topic, place.partition))

    def close(self) -> None:
        self.file.close()


class _NdjsonWriter:
    def __init__(self, sink: Replacement, how: BytesFormat, reading: RecordReading) -> None:
        self._sink = sink
        self._reading = reading
        self._lines = RecordLines(how)

    def write(self, piece: RecordPiece, rows: Rows) -> None:
        place = self._reading.place(piece.log.path)
        self._sink.write(self._lines.text(place, piece, records_of(piece, rows)))

    def close(self) -> None:
        """No-op: nothing is buffered."""


class _CsvWriter:
    def __init__(self, sink: Replacement, how: BytesFormat, reading: RecordReading, is_safe: bool) -> None:
        self._sink = sink
        self._how = how
        self._reading = reading
        self._is_safe = is_safe
        self._keys = CSV_KEYS + (VISIBILITY_KEYS if reading.show_all else ())
        sink.write(csv_line(self._keys).encode() + b"\n")

    def write(self, piece: RecordPiece, rows: Rows) -> None:
        place = self._reading.place(piece.log.path)
        lines = []
        for row, batch, record in records_of(piece, rows):
            found = visible_row(place, piece, row, batch, record)
            values = (found[key] for key in self._keys)
            lines.append(csv_line(values, self._how, is_safe=self._is_safe))
        self._sink.write("\n".join([*lines, ""]).encode("utf-8", "backslashreplace"))

    def close(self) -> None:
        """No-op: nothing is buffered."""
