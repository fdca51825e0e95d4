"""What a leader checks in a batch before it accepts it, and what it writes into it.

    base offset, leader epoch       always; outside the checksum
    timestamp type, max timestamp   if they differ from what the topic requires; then the checksum too
    everything                      if the topic requires another codec, and for messages of magic 0 and 1:
                                    the records are rewritten, into one batch

A follower takes batches as they are; it only checks that they are complete and that their offsets rise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafkatool.engine.batches.records import read_legacy_record, records_of
from kafkatool.engine.broker.producer_state import AppendOrigin
from kafkatool.engine.broker.refusals import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    OffsetsOutOfOrder,
)
from kafkatool.engine.cluster.topic_config import TopicConfig
from kafkatool.engine.log.segment import NewBatch
from kafkatool.errors import FormatError, Truncated
from kafkatool.format import batch as batch_format
from kafkatool.format import legacy
from kafkatool.format.batch import (
    CODEC_MASK,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    BatchHeader,
    Codec,
    NewRecord,
    TimestampType,
    read_header,
    seal,
    write_header,
)
from kafkatool.format.batch_writing import write_batch_like
from kafkatool.format.legacy import MIN_SIZE, Header, LegacyHeader, read_legacy_header
from kafkatool.format.primitives import Buffer
from kafkatool.format.record import DEFAULT_MAX_INFLATED, Record

# The producer fields of messages of magic 0 and 1.
_NO_PRODUCER = BatchHeader(0, 0, -1, 2, 0, 0, 0, -1, -1, -1, -1, -1, 0)
KNOWN_ATTRIBUTES = CODEC_MASK | TIMESTAMP_TYPE_MASK | TRANSACTIONAL_MASK | CONTROL_MASK | DELETE_HORIZON_MASK


def split_batches(data: Buffer) -> Iterator[NewBatch]:
    """Yield the whole batches in `data`; drop a partial one at the end. Raise CorruptMessage for nonsense."""
    view, at = memoryview(data), 0
    while len(view) - at > MAGIC_POSITION:
        size = int.from_bytes(view[at + 8 : at + 12], "big", signed=True) + LOG_OVERHEAD
        magic = view[at + MAGIC_POSITION]
        if size < MIN_SIZE + LOG_OVERHEAD or magic > 2:
            raise CorruptMessage(f"no batch at byte {at}: length {size - LOG_OVERHEAD}, magic {magic}")
        if size > len(view) - at:
            return
        entry = view[at : at + size]
        try:
            yield NewBatch(read_legacy_header(entry) if magic < 2 else read_header(entry), entry)
        except Truncated:
            raise CorruptMessage(f"a batch of {size} bytes at byte {at}") from None
        at += size


def check_batch(batch: NewBatch) -> None:
    """Raise CorruptMessage unless the checksum matches."""
    is_legacy = isinstance(batch.header, LegacyHeader)
    if not (legacy.is_valid(batch.data) if is_legacy else batch_format.is_valid(batch.data)):
        raise CorruptMessage(f"the checksum of the batch up to {batch.header.last_offset} does not match")


def check_for_follower(batches: Sequence[NewBatch]) -> None:
    """Check what a follower requires: complete batches at rising offsets."""
    last = -1
    for batch in batches:
        header = batch.header
        is_backward = header.last_offset_delta < 0
        if header.last_offset <= last or is_backward:
            raise OffsetsOutOfOrder(f"offset {header.last_offset} follows {last}")
        last = header.last_offset
        check_batch(batch)


def check_epochs(batches: Sequence[NewBatch]) -> None:
    """Check that the leader has stamped every batch of magic 2 with its epoch."""
    for header, _ in batches:
        if isinstance(header, BatchHeader) and header.partition_leader_epoch < 0:
            raise InvalidRecord(f"leader epoch {header.partition_leader_epoch} at {header.base_offset}")


def check_size(batch: NewBatch, config: TopicConfig) -> None:
    if batch.header.size > config.max_message_bytes:
        raise MessageTooLarge(
            f"a batch of {batch.header.size} bytes is above max.message.bytes={config.max_message_bytes}"
        )


class LeaderValidation:
    """The checks and stamps of one leader for one topic."""

    def __init__(self, config: TopicConfig, leader_epoch: int, origin: AppendOrigin, now_ms: int) -> None:
        self.config = config
        self.leader_epoch = leader_epoch
        self.origin = origin
        self.now_ms = now_ms

    def stamp(self, batches: Sequence[NewBatch], offset: int) -> NewBatch:
        """Return the batch as it goes into the log at `offset`; raise LogRefusal if it is rejected."""
        for batch in batches:
            self._check_outside(batch)
        first = batches[0]
        codecs = [batch.header.attributes & CODEC_MASK for batch in batches]
        if len(batches) != 1 and (isinstance(first.header, BatchHeader) or any(codecs)):
            raise InvalidRecord(f"{len(batches)} batches: a leader takes one at a time")
        records: list[Record] = []
        for batch in batches:
            if batch.header.magic != first.header.magic:
                raise InvalidRecord(f"a batch of magic {batch.header.magic} behind {first.header.magic}")
            records += self._accepted(batch)
        target = self._target_codec(codecs[0])
        if isinstance(first.header, LegacyHeader):
            return self._rewritten(_NO_PRODUCER, records, target, offset)
        if self._must_rewrite(first.header, records, target):
            return self._rewritten(first.header, records, target, offset)
        return self._patched(first.header, first.data, records, offset)

    def _check_outside(self, batch: NewBatch) -> None:
        """Check what can be checked without reading the records."""
        header = batch.header
        if isinstance(header, BatchHeader) and self.origin is AppendOrigin.CLIENT and header.base_offset != 0:
            raise InvalidRecord(f"base offset {header.base_offset}: a client must leave it at 0")
        check_size(batch, self.config)
        check_batch(batch)

    def _accepted(self, batch: NewBatch) -> list[Record]:
        """Return the records of a batch; raise LogRefusal if it may not be written."""
        header = batch.header
        if header.codec_label is None:
            raise InvalidRecord(f"attributes {header.attributes} name no codec")
        if isinstance(header, BatchHeader):
            self._check_header(header)
        try:
            if isinstance(header, LegacyHeader):
                records = list(_checked_messages(header, batch.data))
            else:
                records = list(records_of(header, batch.data))
        except FormatError as error:
            raise InvalidRecord(f"the records cannot be read: {error}") from None
        self._check_records(header, records)
        return records

    def _check_header(self, header: BatchHeader) -> None:
        if header.last_offset_delta < 0:
            raise InvalidRecord(f"offsets up to {header.last_offset_delta} above the base")
        if self.origin is not AppendOrigin.CLIENT:
            return
        if header.records_count != header.last_offset_delta + 1:
            raise InvalidRecord(f"{header.records_count} records for {header.last_offset_delta + 1} offsets")
        if header.is_control:
            raise InvalidRecord("a client may not write control records")
        if header.producer_id >= 0 and header.base_sequence < 0:
            raise InvalidRecord(f"producer {header.producer_id} without a sequence number")

    def _check_records(self, header: Header, records: Sequence[Record]) -> None:
        """Check all records before rejecting any: a wrong timestamp takes precedence over a missing key."""
        first_bad: str | None = None
        for number, record in enumerate(records):
            if self.config.is_compacted and record.key is None:
                first_bad = first_bad or f"record {number} has no key, and the topic is compacted"
            elif problem := self._time_problem(header, record):
                raise InvalidTimestamp(f"record {number} {problem}")
        if first_bad is not None:
            raise InvalidRecord(first_bad)

    def _time_problem(self, header: Header, record: Record) -> str | None:
        if self.config.uses_append_time or record.timestamp_ms == NO_TIMESTAMP:
            is_wrong = header.timestamp_type is TimestampType.LOG_APPEND
            return "says LogAppendTime, which only a broker may" if is_wrong else None
        age_ms = self.now_ms - record.timestamp_ms
        if age_ms > self.config.timestamp_before_max_ms:
            return f"is {age_ms} ms old, more than message.timestamp.before.max.ms"
        if -age_ms > self.config.timestamp_after_max_ms:
            return f"is {-age_ms} ms ahead, more than message.timestamp.after.max.ms"
        return None

    def _target_codec(self, source: int) -> Codec:
        name = self.config.compression_type
        if name == "producer":
            return Codec(source)
        return Codec.NONE if name == "uncompressed" else Codec[name.upper()]

    def _must_rewrite(self, header: BatchHeader, records: Sequence[Record], codec: Codec) -> bool:
        source = header.attributes & CODEC_MASK
        if source == codec == Codec.NONE or (header.is_control and source == Codec.NONE):
            return False
        dense = all(record.offset == header.base_offset + at for at, record in enumerate(records))
        return source != codec or not dense

    def _patched(
        self, header: BatchHeader, data: bytes | memoryview, records: Sequence[Record], offset: int
    ) -> NewBatch:
        largest = max((record.timestamp_ms for record in records), default=NO_TIMESTAMP)
        attributes = header.attributes & ~TIMESTAMP_TYPE_MASK
        if self.config.uses_append_time:
            attributes |= TIMESTAMP_TYPE_MASK
            largest = self.now_ms
        is_same_type = attributes == header.attributes
        header = header._replace(base_offset=offset, partition_leader_epoch=self.leader_epoch)
        body = bytes(data[HEADER_SIZE:])
        if is_same_type and largest == header.max_timestamp:
            return NewBatch(header, write_header(header) + body)
        sealed = seal(header._replace(attributes=attributes & KNOWN_ATTRIBUTES, max_timestamp=largest), body)
        return NewBatch(read_header(sealed), sealed)

    def _rewritten(
        self, header: BatchHeader, records: Sequence[Record], codec: Codec, offset: int
    ) -> NewBatch:
        if any(row.timestamp_ms < NO_TIMESTAMP for row in records):
            raise InvalidTimestamp("a record is older than time itself")
        rows = [NewRecord(row.key, row.value, row.timestamp_ms, row.headers) for row in records]
        flags = TIMESTAMP_TYPE_MASK if self.config.uses_append_time else 0
        header = header._replace(
            base_offset=offset,
            partition_leader_epoch=self.leader_epoch,
            attributes=flags | header.attributes & TRANSACTIONAL_MASK,
        )
        data = write_batch_like(header, rows, codec, self.config.compression_level)
        if self.config.uses_append_time:
            data = seal(read_header(data)._replace(max_timestamp=self.now_ms), data[HEADER_SIZE:])
        stamped = NewBatch(read_header(data), data)
        check_size(stamped, self.config)
        return stamped


def _checked_messages(header: LegacyHeader, data: bytes | memoryview) -> Iterator[Record]:
    """Yield the messages of an entry; check those inside a wrapper by their own checksums."""
    for message in legacy.read_messages(data, max_inflated=DEFAULT_MAX_INFLATED):
        if message.magic != header.magic:
            raise InvalidRecord(f"a message of magic {message.magic} in a wrapper of {header.magic}")
        if not message.is_valid:
            raise CorruptMessage("the checksum of a message inside a wrapper does not match")
        yield read_legacy_record(message)
