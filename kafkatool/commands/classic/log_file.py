"""The text of kafka-dump-log for `.log` and `.checkpoint` files, line by line.

A line is printed by Kafka in pieces. Where it throws in the middle, the pieces so far stand on its
standard output; here they become a line of their own, the reason goes to `note`, and the walk goes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from kafkatool.commands.classic.decoding import Decode
from kafkatool.commands.classic.options import ClassicOptions
from kafkatool.commands.classic.reports import Reports
from kafkatool.commands.log_rows import bad_records
from kafkatool.engine.findings import Damage
from kafkatool.engine.scan import Batch
from kafkatool.errors import FormatError, TooLarge
from kafkatool.format.batch import CODEC_LABELS, CODEC_MASK, MAX_INT32, BatchHeader
from kafkatool.format.java_text import parse_long
from kafkatool.format.java_values import java_utf8
from kafkatool.format.legacy import LegacyHeader, LegacyMessage, read_messages
from kafkatool.format.names import parse_snapshot_name
from kafkatool.format.record import Record, read_records
from kafkatool.format.release import Release

Emit = Callable[[str], None]
Note = Callable[[Damage], None]

_LINES_AT_ONCE = 256


class LogText:
    """Prints one log. `choose` leaves out records that were not asked for, and batches without any."""

    def __init__(
        self,
        path: str,
        options: ClassicOptions,
        reports: Reports,
        emit: Emit,
        note: Note,
        decode: Decode,
        choose: Callable[[Record | LegacyMessage, Batch], bool] | None = None,
    ) -> None:
        self.path = path
        self.options = options
        self.reports = reports
        self.emit = emit
        self.note = note
        self.decode = decode
        self.choose = choose
        self.last_offset = -1

    def dump(self, walk: Iterable[Batch | Damage], size: int) -> None:
        """Print every batch and what Kafka says of bytes behind the last one."""
        if self.options.deep_iteration or self.choose:
            self._dump_deep(walk, size)
        else:
            self._list(walk, size)

    def heading(self) -> None:
        """What Kafka prints before it opens the file."""
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

    def _list(self, walk: Iterable[Batch | Damage], size: int) -> None:
        lines: list[str] = []
        trailer = _Trailer(self, size)
        batch: Batch | None = None
        add, line_of, most = lines.append, batch_line, _LINES_AT_ONCE
        for item in walk:
            if isinstance(item, Batch):
                batch = item
                add(line_of(item))
                if len(lines) < most:
                    continue
            if lines:
                self.emit("\n".join(lines))
                lines.clear()
            if isinstance(item, Damage):
                trailer.end = batch.position + batch.header.size if batch else 0
                trailer.damage(item)
        if lines:
            self.emit("\n".join(lines))

    def _dump_deep(self, walk: Iterable[Batch | Damage], size: int) -> None:
        trailer = _Trailer(self, size)
        for item in walk:
            if isinstance(item, Damage):
                trailer.damage(item)
                continue
            trailer.end = item.position + item.header.size
            lines = self._record_lines(item)
            if self.choose is None:
                self.emit(batch_line(item))
            else:
                first = next(lines, None)
                if first is None:
                    continue
                self.emit(batch_line(item))
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
        """Keep the pairs of offsets that do not follow each other, as each release counts them."""
        last, self.last_offset = self.last_offset, offset
        if self.options.release < Release.V4_3 and last == -1:
            return
        if offset != last + 1:
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
        is_control = isinstance(header, BatchHeader) and header.is_control
        if not self.options.skip_record_metadata:
            yield self._metadata(header, record)
            if is_control:
                from kafkatool.format.schema import control_text

                yield control_text(self.options.release, record.key, record.value)
        if self.options.print_data_log and not is_control:
            yield from self._contents(record)

    def _metadata(self, header: BatchHeader | LegacyHeader, record: Record | LegacyMessage) -> str:
        line = (
            f"| offset: {record.offset} {header.timestamp_type.value}: {record.timestamp_ms}"
            f" keySize: {record.key_size} valueSize: {record.value_size}"
        )
        if isinstance(record, Record):
            keys = ",".join(java_utf8(key) for key, _ in record.headers)
            return f"{line} sequence: {record.sequence} headerKeys: [{keys}]"
        # The Scala tool closes a brace that it never opened.
        brace = "}" if self.options.release < Release.V4_3 else ""
        return f"{line} isValid: {_java_bool(record.is_valid)} crc: {record.crc}{brace}"

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
    """Kafka's last word on a log that does not end with a whole batch, said where Kafka says it."""

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
    """The line of one batch, without its line end."""
    header = batch.header
    if isinstance(header, LegacyHeader):
        return _legacy_line(batch, header)
    base, length, epoch, magic, crc, attributes, delta, _, max_time, pid, pepoch, seq, count = header
    if attributes & 0x40 or magic != 2 or delta < 0:
        return _unusual_line(batch, header)
    # Neighbours share most of their numbers: what is the same is formatted once.
    shared = _shared.get((pid, pepoch, epoch, attributes))
    if shared is None:
        shared = _shared_texts(pid, pepoch, epoch, attributes)
    producer, stamp, codec = shared
    return (
        f"baseOffset: {base} lastOffset: {base + delta} count: {count} baseSequence: {seq} lastSequence: "
        f"{seq if seq == -1 else header.last_sequence}{producer}{batch.position}{stamp}{max_time}"
        f" size: {length + 12}{codec}{crc} isvalid: {'true' if batch.is_valid else 'false'}"
    )


_shared: dict[tuple[int, int, int, int], tuple[str, str, str]] = {}
_MOST_SHARED = 4096


def _shared_texts(pid: int, pepoch: int, epoch: int, attributes: int) -> tuple[str, str, str]:
    if len(_shared) >= _MOST_SHARED:
        _shared.clear()
    flags, stamp, codec = _attribute_texts(attributes, "OptionalLong.empty")
    producer = f" producerId: {pid} producerEpoch: {pepoch} partitionLeaderEpoch: {epoch}{flags} position: "
    texts = producer, stamp, f" magic: 2{codec}"
    _shared[pid, pepoch, epoch, attributes] = texts
    return texts


def _unusual_line(batch: Batch, header: BatchHeader) -> str:
    horizon = header.delete_horizon_ms
    optional = "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]"
    flags, stamp, codec = _attribute_texts(header.attributes, optional)
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.records_count}"
        f" baseSequence: {header.base_sequence} lastSequence: {header.last_sequence}"
        f" producerId: {header.producer_id} producerEpoch: {header.producer_epoch}"
        f" partitionLeaderEpoch: {header.partition_leader_epoch}{flags} position: {batch.position}"
        f"{stamp}{header.max_timestamp} size: {header.size} magic: {header.magic}{codec}{header.crc}"
        f" isvalid: {_java_bool(batch.is_valid)}"
    )


def _legacy_line(batch: Batch, header: LegacyHeader) -> str:
    return (
        f"offset: {header.offset} position: {batch.position}"
        f" {header.timestamp_type.value}: {header.timestamp}"
        f" size: {header.size} magic: {header.magic} compresscodec: {_codec(header.attributes)}"
        f" crc: {header.crc} isvalid: {_java_bool(batch.is_valid)}"
    )


def _attribute_texts(attributes: int, horizon: str) -> tuple[str, str, str]:
    transactional, control = bool(attributes & 0x10), bool(attributes & 0x20)
    stamp = "LogAppendTime" if attributes & 0x08 else "CreateTime"
    return (
        f" isTransactional: {_java_bool(transactional)} isControl: {_java_bool(control)}"
        f" deleteHorizonMs: {horizon}",
        f" {stamp}: ",
        f" compresscodec: {_codec(attributes)} crc: ",
    )


def _codec(attributes: int) -> str:
    """Kafka throws for 5 to 7; the number is all that can be said."""
    return CODEC_LABELS[attributes & CODEC_MASK] or f"unknown({attributes & CODEC_MASK})"


def _java_bool(value: bool) -> str:
    return "true" if value else "false"
