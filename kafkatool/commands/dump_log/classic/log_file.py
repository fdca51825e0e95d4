"""The text of kafka-dump-log for `.log` and `.checkpoint` files, line by line.

Kafka prints a line in pieces. Where it throws in the middle, the pieces so far are left on its standard
output; here they become a line of their own, the reason goes to `note`, and the walk continues.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from kafkatool.commands.dump_log.classic.decoding import decode_with
from kafkatool.commands.dump_log.classic.options import ClassicOptions
from kafkatool.commands.dump_log.classic.reports import Reports
from kafkatool.engine.batches.damage import Damage
from kafkatool.engine.batches.records import bad_records
from kafkatool.engine.batches.scan import Batch, BatchRun
from kafkatool.errors import FormatError, TooLarge
from kafkatool.format import batch_text
from kafkatool.format.batch import CODEC_MASK, MAX_INT32, BatchHeader, wrap_int64
from kafkatool.format.batch_text import codec_text, java_bool, record_line
from kafkatool.format.java_text import parse_long
from kafkatool.format.kernel.loops import batch_lines, deep_lines
from kafkatool.format.legacy import Header, LegacyMessage, read_messages
from kafkatool.format.names import parse_snapshot_name
from kafkatool.format.record import Record, read_body, read_records
from kafkatool.format.release import Release


class LogPage(Protocol):
    """Where the text of a log is written."""

    def emit(self, text: str) -> None:
        """Take one line, or several joined by line ends, without the last end."""

    def emit_bytes(self, text: bytes) -> None:
        """Take whole lines."""

    def note(self, damage: Damage) -> None:
        """Take damage, which Kafka's text does not report."""


class LogText:
    """Prints one log. `choose` leaves out records that do not match, and batches without any match."""

    def __init__(
        self,
        path: str,
        options: ClassicOptions,
        reports: Reports,
        page: LogPage,
        choose: Callable[[Record | LegacyMessage, Batch], bool] | None = None,
    ) -> None:
        self.path = path
        self.options = options
        self.reports = reports
        self.emit = page.emit
        self.emit_bytes = page.emit_bytes
        self.note = page.note
        self.decode = decode_with(options, page.emit)
        self.choose = choose
        self.last_offset = -1

    def dump(self, walk: Iterable[BatchRun | Batch | Damage], size: int) -> None:
        """Print every batch, and Kafka's line about bytes after the last one."""
        if self.options.deep_iteration or self.choose:
            self._dump_deep(walk, size)
        else:
            self._list(walk, size)

    def heading(self) -> None:
        """Print what Kafka prints before it opens the file."""
        name = os.path.basename(self.path)
        if name == "bootstrap.checkpoint":
            self.emit("KRaft bootstrap snapshot")
        elif name.endswith(".checkpoint"):
            parsed = parse_snapshot_name(name)
            if parsed is not None:
                self.emit(f"Snapshot end offset: {parsed.offset}, epoch: {parsed.epoch}")
        else:
            start = parse_long(name.split(".")[0])
            if start is not None:
                self.emit(f"Log starting offset: {start}")

    def _list(self, walk: Iterable[BatchRun | Batch | Damage], size: int) -> None:
        trailer = _Trailer(self, size)
        for item in walk:
            if isinstance(item, BatchRun):
                trailer.end = item.position + item.end - item.start
                self.emit_bytes(batch_lines(item.window, item.start, item.end, item.position))
            elif isinstance(item, Batch):
                trailer.end = item.position + item.header.size
                self.emit(batch_line(item))
            else:
                trailer.damage(item)

    def _dump_deep(self, walk: Iterable[BatchRun | Batch | Damage], size: int) -> None:
        trailer = _Trailer(self, size)
        for item in walk:
            if isinstance(item, Damage):
                trailer.damage(item)
            elif isinstance(item, BatchRun):
                trailer.end = item.position + item.end - item.start
                self._dump_run(item)
            else:
                trailer.end = item.position + item.header.size
                self._dump_batch(item)

    def _dump_run(self, run: BatchRun) -> None:
        """Print many batches at once, and those that need more care one by one."""
        if not self._is_plain:
            for batch in run.batches():
                self._dump_batch(batch)
            return
        at = run.start
        while at < run.end:
            at = self._dump_lines(run, at, run.end)
            if at < run.end:
                at = self._dump_careful(run, at)

    def _dump_lines(self, run: BatchRun, at: int, end: int, body: bytes | None = None) -> int:
        position = run.position + at - run.start
        with_data = self.options.print_data_log
        text, at, self.last_offset, gaps = deep_lines(
            run.window, at, end, position, self.last_offset, with_data, body
        )
        self.emit_bytes(text)
        for last, offset in gaps:
            self._gap(last, offset)
        return at

    def _dump_careful(self, run: BatchRun, at: int) -> int:
        """Print one batch that is compressed or has unusual records."""
        batch = next(BatchRun(run.position + at - run.start, run.window, at, run.end, 1).batches())
        header = batch.header
        assert isinstance(header, BatchHeader)
        assert batch.data is not None
        stop = at + header.size
        if header.attributes & CODEC_MASK and header.records_count and not header.is_control:
            try:
                body = read_body(header, batch.data, max_inflated=self.options.max_inflated)
            except FormatError:
                pass  # reported below, after the records that can be read
            else:
                if self._dump_lines(run, at, stop, body) == stop:
                    return stop
        self._dump_batch(batch)
        return stop

    @property
    def _is_plain(self) -> bool:
        """Whether all records are shown, unchanged."""
        options = self.options
        decodes = options.decoder or options.key_decoder or options.value_decoder
        return self.choose is None and not options.skip_record_metadata and not decodes

    def _dump_batch(self, batch: Batch) -> None:
        lines = self._record_lines(batch)
        if self.choose is None:
            self.emit(batch_line(batch))
        else:
            first = next(lines, None)
            if first is None:
                return
            self.emit(batch_line(batch))
            self.emit(first)
        for line in lines:
            self.emit(line)

    def _record_lines(self, batch: Batch) -> Iterator[str]:
        try:
            for record in self._records(batch):
                if self.choose is None or self.choose(record, batch):
                    self._count(record.offset)
                    yield self._record_line(batch, record)
        except FormatError as error:
            self.note(bad_records(batch, error))

    def _records(self, batch: Batch) -> Iterator[Record | LegacyMessage]:
        if batch.data is None:
            raise TooLarge("batch", batch.position, expected="a smaller one", found=batch.header.size)
        limit = self.options.max_inflated
        if isinstance(batch.header, BatchHeader):
            return read_records(batch.header, batch.data, max_inflated=limit)
        return read_messages(batch.data, max_inflated=limit)

    def _count(self, offset: int) -> None:
        """Keep the pairs of offsets that are not consecutive, as each release counts them."""
        last, self.last_offset = self.last_offset, offset
        if offset != wrap_int64(last + 1):
            self._gap(last, offset)

    def _gap(self, last: int, offset: int) -> None:
        if self.options.release < Release.V4_3 and last == -1:
            return
        self.reports.non_consecutive(self.path, last, offset)

    def _record_line(self, batch: Batch, record: Record | LegacyMessage) -> str:
        pieces: list[str] = []
        try:
            pieces.extend(self._record_pieces(batch, record))
        except FormatError as error:
            self.note(bad_records(batch, error, record.offset))
        return "".join(pieces)

    def _record_pieces(self, batch: Batch, record: Record | LegacyMessage) -> Iterator[str]:
        header = batch.header
        is_control = header.is_control
        if not self.options.skip_record_metadata:
            yield self._metadata(header, record)
            if is_control:
                from kafkatool.format.schema import control_text

                yield control_text(self.options.release, record.key, record.value)
        if self.options.print_data_log and not is_control:
            yield from self._contents(record)

    def _metadata(self, header: Header, record: Record | LegacyMessage) -> str:
        if isinstance(record, Record) and isinstance(header, BatchHeader):
            return record_line(header, record)
        assert isinstance(record, LegacyMessage)
        # The Scala tool closes a brace that it never opened.
        brace = "}" if self.options.release < Release.V4_3 else ""
        return (
            f"| offset: {record.offset} {header.timestamp_type.value}: {record.timestamp_ms}"
            f" keySize: {record.key_size} valueSize: {record.value_size}"
            f" isValid: {java_bool(record.is_valid)} crc: {record.crc}{brace}"
        )

    def _contents(self, record: Record | LegacyMessage) -> Iterator[str]:
        key, payload = self.decode(record.offset, record.key, record.value)
        prefix = "| " if self.options.skip_record_metadata else " "
        if key is not None:
            yield f"{prefix}key: {key}"
            prefix = " "
        if payload is not None:
            if self.options.release < Release.V4_3:
                prefix = " "
            yield f"{prefix}payload: {payload}"


class _Trailer:
    """Prints Kafka's last line on a log that does not end with a whole batch, where Kafka prints it."""

    def __init__(self, text: LogText, size: int) -> None:
        self.text = text
        self.size = size
        self.end = 0
        self.kafka_goes_on = True

    def damage(self, damage: Damage) -> None:
        whole_file = self.text.options.max_bytes == MAX_INT32
        if damage.ends_chain and not damage.throws and self.kafka_goes_on and whole_file:
            name = os.path.basename(self.text.path)
            self.text.emit(f"Found {self.size - self.end} invalid bytes at the end of {name}")
        if damage.ends_chain:
            self.kafka_goes_on = False
        self.text.note(damage)


def batch_line(batch: Batch) -> str:
    """Return the line of one batch, without its line end."""
    header = batch.header
    if isinstance(header, BatchHeader):
        return batch_text.batch_line(header, batch.position, batch.is_valid)
    return (
        f"offset: {header.offset} position: {batch.position}"
        f" {header.timestamp_type.value}: {header.timestamp}"
        f" size: {header.size} magic: {header.magic} compresscodec: {codec_text(header.attributes)}"
        f" crc: {header.crc} isvalid: {java_bool(batch.is_valid)}"
    )
