"""Which records were asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kafkatool.commands.arguments import Control, HeaderFilter
from kafkatool.engine.lookup import EVERYWHERE, Range
from kafkatool.engine.scan import Batch
from kafkatool.format.batch import BatchHeader
from kafkatool.format.legacy import LegacyMessage
from kafkatool.format.record import Record


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """A record must pass all that is set; of several keys, one."""

    wanted: Range = EVERYWHERE
    keys: frozenset[bytes] = frozenset()
    key_regex: re.Pattern[bytes] | None = None
    headers: tuple[HeaderFilter, ...] = ()
    producer_id: int | None = None
    control: Control | None = None

    @property
    def asks_for_records(self) -> bool:
        """Whether anything but the range is set, which only single records can answer."""
        return self != RecordFilter(self.wanted)

    def takes_batch(self, batch: Batch) -> bool:
        """What the header alone can tell, so that batches without a chance are never inflated."""
        header = batch.header
        is_control = isinstance(header, BatchHeader) and header.is_control
        if self.control is not None and is_control != (self.control is Control.only):
            return False
        if self.producer_id is None:
            return True
        return isinstance(header, BatchHeader) and header.producer_id == self.producer_id

    def takes(self, record: Record | LegacyMessage, batch: Batch) -> bool:
        return (
            self.takes_batch(batch)
            and self.wanted.holds(record.offset, record.timestamp_ms)
            and (not self.keys or record.key in self.keys)
            and (self.key_regex is None or self._key_matches(record.key))
            and all(_has_header(record, header) for header in self.headers)
        )

    def _key_matches(self, key: bytes | None) -> bool:
        assert self.key_regex is not None
        return key is not None and self.key_regex.search(key) is not None


def _has_header(record: Record | LegacyMessage, wanted: HeaderFilter) -> bool:
    if isinstance(record, LegacyMessage):
        return False
    return any(
        name == wanted.name and (wanted.value is None or value == wanted.value)
        for name, value in record.headers
    )
