"""Read the records of a batch of any magic as one type, and describe their damage."""

from __future__ import annotations

from collections.abc import Iterator

from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.batches.scan import Batch
from kafkatool.errors import FormatError, TooLarge
from kafkatool.format.batch import NO_SEQUENCE, BatchHeader
from kafkatool.format.legacy import Header, LegacyMessage, read_messages
from kafkatool.format.primitives import Buffer
from kafkatool.format.record import DEFAULT_MAX_INFLATED, Record, read_records


def records_of(header: Header, data: Buffer) -> Iterator[Record]:
    """Yield the records of one whole batch; raise FormatError after the last readable one."""
    if isinstance(header, BatchHeader):
        yield from read_records(header, data)
    else:
        yield from map(read_legacy_record, read_messages(data, max_inflated=DEFAULT_MAX_INFLATED))


def read_legacy_record(message: LegacyMessage) -> Record:
    """Return a message as a record without headers; raise FormatError if key or value does not fit."""
    return Record(
        message.offset,
        message.timestamp_ms,
        NO_SEQUENCE,
        message.attributes,
        message.key,
        message.value,
        (),
    )


def bad_records(batch: Batch, error: FormatError, offset: int | None = None) -> Damage:
    """Describe unreadable records as damage, for a batch that can be read itself."""
    header = batch.header
    is_too_large = isinstance(error, TooLarge)
    first = header.base_offset
    return Damage(
        kind=FindingClass.TOO_LARGE if is_too_large else FindingClass.BAD_RECORD,
        position=batch.position,
        end_position=batch.position + header.size,
        expected=str(error.expected),
        found=str(error.found),
        message=f"{error.what} at its byte {error.at}",
        severity=Severity.DEGRADED if is_too_large else Severity.LOSS,
        first_offset=first if offset is None else offset,
        last_offset=header.last_offset if offset is None else offset,
    )
