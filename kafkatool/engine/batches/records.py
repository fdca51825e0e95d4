"""The records of a batch of any magic, as one type."""

from __future__ import annotations

from collections.abc import Iterator

from kafkatool.format.batch import NO_SEQUENCE, BatchHeader
from kafkatool.format.legacy import Header, LegacyMessage, read_messages
from kafkatool.format.primitives import Buffer
from kafkatool.format.record import DEFAULT_MAX_INFLATED, Record, read_records


def records_of(header: Header, data: Buffer) -> Iterator[Record]:
    """Yield the records of one whole batch; raise FormatError behind the last that can be read."""
    if isinstance(header, BatchHeader):
        yield from read_records(header, data)
    else:
        yield from map(read_legacy_record, read_messages(data, max_inflated=DEFAULT_MAX_INFLATED))


def read_legacy_record(message: LegacyMessage) -> Record:
    """A message as a record without headers; raise FormatError for a key or value that does not fit."""
    return Record(
        message.offset,
        message.timestamp_ms,
        NO_SEQUENCE,
        message.attributes,
        message.key,
        message.value,
        (),
    )
