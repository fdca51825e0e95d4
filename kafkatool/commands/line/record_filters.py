"""Which records were selected."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kafkatool.commands.line.arguments import Control, HeaderFilter
from kafkatool.engine.batches.scan import Batch
from kafkatool.engine.batches.seek import EVERYWHERE, Range
from kafkatool.format.batch import BatchHeader
from kafkatool.format.legacy import LegacyMessage
from kafkatool.format.record import Record

Headers = Sequence[tuple[bytes, bytes | None]]


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """A record must match all conditions that are set, and any one of the keys."""

    wanted: Range = EVERYWHERE
    keys: frozenset[bytes] = frozenset()
    key_regex: re.Pattern[bytes] | None = None
    headers: tuple[HeaderFilter, ...] = ()
    producer_id: int | None = None
    control: Control | None = None
    leaves_out_secrets: bool = False
    """Whether cluster metadata records that hold credentials are left out."""

    @property
    def asks_for_records(self) -> bool:
        """Whether anything but the range is set, so that single records must be examined."""
        return self != RecordFilter(self.wanted)

    @property
    def asks_for_content(self) -> bool:
        """Whether keys or headers are filtered."""
        return bool(self.keys or self.key_regex is not None or self.headers)

    def takes_batch(self, batch: Batch) -> bool:
        """Return whether a batch may match, by its header alone: others are never decompressed."""
        header = batch.header
        if self.control is not None and header.is_control != (self.control is Control.only):
            return False
        if self.producer_id is None:
            return True
        return isinstance(header, BatchHeader) and header.producer_id == self.producer_id

    def takes(self, record: Record | LegacyMessage, batch: Batch) -> bool:
        return (
            self.takes_batch(batch)
            and self.wanted.holds(record.offset, record.timestamp_ms)
            and (not self.asks_for_content or self.takes_content(record.key, _headers(record)))
        )

    def takes_content(self, key: bytes | None, headers: Headers) -> bool:
        """Return whether key and headers match."""
        return (
            (not self.keys or key in self.keys)
            and (self.key_regex is None or self._key_matches(key))
            and all(_has_header(headers, header) for header in self.headers)
        )

    def _key_matches(self, key: bytes | None) -> bool:
        assert self.key_regex is not None
        return key is not None and self.key_regex.search(key) is not None


def _headers(record: Record | LegacyMessage) -> Headers:
    return () if isinstance(record, LegacyMessage) else record.headers


def _has_header(headers: Headers, wanted: HeaderFilter) -> bool:
    return any(
        name == wanted.name and (wanted.value is None or value == wanted.value) for name, value in headers
    )
