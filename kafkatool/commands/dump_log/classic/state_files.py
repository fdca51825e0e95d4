"""The text of kafka-dump-log for `.txnindex` and `.snapshot` files."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import accumulate

from kafkatool.commands.dump_log.classic.options import ClassicOptions
from kafkatool.commands.dump_log.classic.reports import Reports
from kafkatool.commands.dump_log.classic.side_files import (
    DamageRuns,
    Emit,
    Lines,
    Note,
    file_damage,
    offset_in_name,
    open_index,
    open_noting,
)
from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.errors import FormatError
from kafkatool.format import txn_index
from kafkatool.format.release import Release
from kafkatool.format.state import producer_snapshot as snapshots
from kafkatool.format.state.producer_snapshot import ProducerState

LARGEST_SNAPSHOT = 64 << 20

_ENTRY_FIELDS = (
    ("producer_id", 8),
    ("epoch", 2),
    ("last_sequence", 4),
    ("last_offset", 8),
    ("offset_delta", 4),
    ("timestamp", 8),
    ("coordinator_epoch", 4),
    ("current_txn_first_offset", 8),
)
_UNDERFLOW = "java.nio.BufferUnderflowException"


def dump_txn_index(path: str, options: ClassicOptions, _reports: Reports, emit: Emit, note: Note) -> None:
    """Print the aborted transactions. An entry whose version makes Kafka throw is noted and left out."""
    if offset_in_name(path, note) is None:
        return
    lines, runs = Lines(emit), DamageRuns(note)
    with ExitStack() as stack:
        index = open_index(stack, path, txn_index.ENTRY_SIZE, options, note)
        if index is None:
            return
        for slot, raw in index.slots():
            entry = txn_index.read_entry(raw, 0)
            problem = txn_index.version_problem(entry)
            if problem is None:
                lines.add(
                    f"version: {entry.version_kafka_sees} producerId: {entry.producer_id}"
                    f" firstOffset: {entry.first_offset} lastOffset: {entry.last_offset}"
                    f" lastStableOffset: {entry.last_stable_offset}"
                )
            else:
                start = slot * txn_index.ENTRY_SIZE
                runs.add(_txn_damage(start, start + txn_index.ENTRY_SIZE, "version 0", problem))
        left = index.size % txn_index.ENTRY_SIZE
        if left:
            runs.add(_txn_damage(index.size - left, index.size, "whole entries", f"{left} bytes at the end"))
    lines.flush()
    runs.flush()


def _txn_damage(position: int, end: int, expected: str, found: str) -> Damage:
    return Damage(
        kind=FindingClass.BAD_INDEX,
        position=position,
        end_position=end,
        expected=expected,
        found=found,
        message=f"not an aborted transaction: {found}",
        severity=Severity.DEGRADED,
    )


def dump_snapshot(path: str, options: ClassicOptions, reports: Reports, emit: Emit, note: Note) -> None:
    """Print the producers. For a file that Kafka calls corrupt, only that is printed."""
    with ExitStack() as stack:
        source = open_noting(stack, path, options, note)
        if source is None:
            return
        buf = source.read(0, LARGEST_SNAPSHOT + 1)
    if len(buf) > LARGEST_SNAPSHOT:
        message = f"more than {LARGEST_SNAPSHOT} bytes of producer state"
        note(file_damage(FindingClass.TOO_LARGE, message, expected=str(LARGEST_SNAPSHOT), found="more"))
        return
    problem = corrupt_message(buf, options.release)
    if problem is not None:
        reports.say(problem)
        message = "producer state cannot be read"
        note(
            file_damage(
                FindingClass.BAD_SNAPSHOT, message, size=len(buf), expected="a snapshot", found=problem
            )
        )
        return
    lines = Lines(emit)
    for entry in snapshots.read_entries(buf):
        lines.add(_producer_line(entry, options.release))
    lines.flush()


def _producer_line(entry: ProducerState, release: Release) -> str:
    first = entry.current_txn_first_offset
    optional = f"OptionalLong[{first}]" if first >= 0 else "OptionalLong.empty"
    line = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch}"
        f" coordinatorEpoch: {entry.coordinator_epoch} currentTxnFirstOffset: {optional}"
        f" lastTimestamp: {entry.timestamp_ms}"
    )
    if entry.last_offset >= 0:
        return (
            f"{line} firstSequence: {entry.first_sequence} lastSequence: {entry.last_sequence}"
            f" lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta}"
            f" timestamp: {entry.timestamp_ms}"
        )
    # The Scala tool writes the space before it knows whether something follows.
    return line if release >= Release.V4_3 else f"{line} "


def corrupt_message(buf: bytes, release: Release) -> str | None:
    """Return what Kafka says about bytes that are not a snapshot; None if they are one.

    From 4.0 on the version is checked first, and as part of the schema.
    """
    problem = _schema_problem(buf) if release >= Release.V4_0 else _old_schema_problem(buf)
    if problem is not None:
        return f"Snapshot failed schema validation: {problem}"
    header = snapshots.read_header(buf)
    if header.version != snapshots.CURRENT_VERSION:
        return f"Snapshot contained an unknown file version {header.version}"
    computed = snapshots.computed_crc(buf)
    if header.crc != computed:
        return (
            "Snapshot is corrupt (CRC is no longer valid)."
            f" Stored crc: {header.crc}. Computed crc: {computed}"
        )
    return None


def _schema_problem(buf: bytes) -> str | None:
    """Return the problem, from 4.0 on; an end in the middle of a number has no message, printed as `null`."""
    version = int.from_bytes(buf[:2], "big", signed=True)
    if len(buf) >= 2 and version != snapshots.CURRENT_VERSION:
        return f"Snapshot contained an unknown file version {version}"
    try:
        count = snapshots.read_header(buf).entry_count
        left = len(buf) - snapshots.HEADER_SIZE
        if count < 0:
            return "non-nullable field producerEntries was serialized as null"
        if count > left:
            return (
                f"Tried to allocate a collection of size {count}, but there are only {left} bytes remaining."
            )
        snapshots.read_entries(buf)
    except FormatError:
        return "null"
    return None


def _old_schema_problem(buf: bytes) -> str | None:
    """Return the problem, up to 3.9, which reads field by field and checks the version afterwards."""
    for field, end in (("version", 2), ("crc", 6), ("producer_entries", 10)):
        if len(buf) < end:
            return f"Error reading field '{field}': {_UNDERFLOW}"
    count = snapshots.read_header(buf).entry_count
    left = len(buf) - snapshots.HEADER_SIZE
    within = "Error reading field 'producer_entries': "
    if count < 0:
        return f"{within}Array size {count} cannot be negative"
    if count > left:
        return f"{within}Error reading array of size {count}, only {left} bytes available"
    if count * snapshots.ENTRY_SIZE > left:
        return f"{within}Error reading field '{_field_cut_at(left % snapshots.ENTRY_SIZE)}': {_UNDERFLOW}"
    return None


def _field_cut_at(left: int) -> str:
    """Return the field of an entry that the last `left` bytes cut off."""
    ends = accumulate(size for _field, size in _ENTRY_FIELDS)
    return next(field for (field, _size), end in zip(_ENTRY_FIELDS, ends, strict=True) if left < end)
