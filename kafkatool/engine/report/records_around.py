"""The records before and after damage: only if payloads are requested."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from kafkatool.engine.batches.damage import Damage
from kafkatool.engine.batches.indexes import read_offset_index
from kafkatool.engine.batches.records import records_of
from kafkatool.engine.batches.scan import Batch, scan
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.engine.verify.finding import Finding
from kafkatool.errors import FormatError, KafkatoolError
from kafkatool.format.record import Record

MOST_RECORDS = 3
"""Maximum number of records on either side."""
MOST_BYTES = 400
"""Maximum bytes shown of a key or a value."""


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A record whose long keys and values are cut off; the sizes are the full ones."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    key_size: int
    value_size: int


@dataclass(slots=True)
class Around:
    """The last good records before the damage of a finding, and the first after it."""

    finding: Finding
    before: list[ShownRecord] = field(default_factory=list)
    behind: list[ShownRecord] = field(default_factory=list)


def records_around(finding: Finding, guest: Guest) -> Around | None:
    """Return the records around a finding in a log; None if the file is no longer readable."""
    found, damage = Around(finding), finding.damage
    try:
        known = [at for at in read_offset_index(finding.file, guest).positions if at < damage.position]
        with open_source(finding.file, guest) as source:
            for item in scan(source, known[-1] if known else 0):
                if isinstance(item, Damage) or not _shows(item):
                    continue
                if item.position < damage.position:
                    found.before = [*found.before, *_records(item)][-MOST_RECORDS:]
                elif item.position >= damage.end_position:
                    found.behind += _records(item)[: MOST_RECORDS - len(found.behind)]
                    if len(found.behind) == MOST_RECORDS:
                        break
    except (OSError, KafkatoolError):
        return None
    return found


def _shows(batch: Batch) -> bool:
    is_control = batch.header.is_control
    return batch.is_valid and batch.data is not None and not is_control


def _records(batch: Batch) -> list[ShownRecord]:
    assert batch.data is not None
    return [
        ShownRecord(
            one.offset, one.timestamp_ms, _cut(one.key), _cut(one.value), one.key_size, one.value_size
        )
        for one in _readable(batch)
    ]


def _readable(batch: Batch) -> Iterator[Record]:
    with suppress(FormatError):
        assert batch.data is not None
        yield from records_of(batch.header, batch.data)


def _cut(payload: bytes | None) -> bytes | None:
    return None if payload is None else bytes(payload[:MOST_BYTES])
