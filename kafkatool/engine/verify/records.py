"""Check the contents of a batch whose checksum matches: its records, or its transaction marker."""

from __future__ import annotations

from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.batches.scan import DEFAULT_MAX_BATCH_SIZE
from kafkatool.errors import FormatError, TooLarge
from kafkatool.format.batch import HEADER_SIZE, BatchHeader
from kafkatool.format.kernel.loops import records_hold
from kafkatool.format.legacy import Header, LegacyHeader, read_messages
from kafkatool.format.record import read_body, read_records


def read_marker(header: BatchHeader, data: memoryview) -> tuple[bool, int] | None:
    """Return whether a transaction marker is a commit, and the coordinator's epoch; None if unreadable."""
    from kafkatool.format.schema.control import END_OF_TRANSACTION, read_control_type, read_end_marker
    from kafkatool.format.schema.reading import Unreadable

    try:
        for record in read_records(header, data):
            kind = read_control_type(record.key)
            if kind in END_OF_TRANSACTION:
                return kind == 1, read_end_marker(record.value)
    except (FormatError, Unreadable):
        return None
    return None


def record_problem(header: Header, data: memoryview | None) -> Damage | None:
    """Return what is wrong with the records of a batch whose checksum matches; the caller sets positions."""
    first = header.base_offset
    try:
        if data is None:
            raise TooLarge("batch", 0, expected="a batch that fits into memory", found=header.size)
        if isinstance(header, LegacyHeader):
            for _ in read_messages(data, max_inflated=DEFAULT_MAX_BATCH_SIZE):
                pass
            return None
        if _holds(header, data):
            return None
        problem = _record_order(header, data)
    except FormatError as error:
        kind = FindingClass.TOO_LARGE if isinstance(error, TooLarge) else FindingClass.BAD_RECORD
        expected, found, message = str(error.expected), str(error.found), str(error)
        severity = Severity.DEGRADED if kind is FindingClass.TOO_LARGE else Severity.LOSS
    else:
        if problem is None:
            return None
        kind, severity = FindingClass.BAD_RECORD, Severity.DEGRADED
        expected, found, message = problem
    return Damage(
        kind, 0, 0, expected, found, message, severity, first_offset=first, last_offset=header.last_offset
    )


def _holds(header: BatchHeader, data: memoryview) -> bool:
    """Return whether the records are valid, by a fast check; `_record_order` finds out what is wrong."""
    try:
        return records_hold(data[:HEADER_SIZE], read_body(header, data, max_inflated=DEFAULT_MAX_BATCH_SIZE))
    except FormatError:
        return False


def _record_order(header: BatchHeader, data: memoryview) -> tuple[str, str, str] | None:
    """Check that offsets increase within the header's range, and that no time is above its greatest."""
    before = header.base_offset - 1
    for record in read_records(header, data):
        if not before < record.offset <= header.last_offset:
            expected = f"an offset from {before + 1} to {header.last_offset}"
            return expected, f"offset {record.offset}", f"record offset {record.offset} out of place"
        if record.timestamp_ms > header.max_timestamp:
            expected = f"a time of {header.max_timestamp} at most"
            found = f"time {record.timestamp_ms}"
            return expected, found, f"record {record.offset} is later than its batch says"
        before = record.offset
    return None
