"""Declare what a row holds: each key with its type, its meaning, and where its value comes from.

The fields of batches, records and damage are here, because NDJSON, the manual, Parquet and Spark share them.
Other rows are declared in `commands/rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from operator import attrgetter
from typing import Any, NamedTuple

_attribute = cache(attrgetter)


class RowField(NamedTuple):
    """One key of a row."""

    type: str
    """The name of one of the functions below this class."""
    key: str
    meaning: str
    get: str | Callable[[Any], object] = ""
    """The path of the attribute that holds the value, or a function of the subject; by default, the key."""
    optional: bool = False
    """Whether only some rows of a kind have the key; all other keys are always present."""
    never_null: bool = False

    @property
    def getter(self) -> Callable[[Any], object]:
        return self.get if callable(self.get) else _attribute(self.get or self.key)


text = partial(RowField, "text")
word = partial(RowField, "word")  # one of a few texts
flag = partial(RowField, "flag")
int16 = partial(RowField, "int16")
int32 = partial(RowField, "int32")
int64 = partial(RowField, "int64")
size = partial(RowField, "size")  # bytes, 64 bits
time_ms = partial(RowField, "time_ms")  # 64 bits
real = partial(RowField, "real")
data = partial(RowField, "data")  # bytes
headers = partial(RowField, "headers")
ints = partial(RowField, "ints")
texts = partial(RowField, "texts")
items = partial(RowField, "items")  # objects, or lists
tree = partial(RowField, "tree")  # an object


def inside(what: str, *fields: RowField) -> Iterator[RowField]:
    """Take the fields from an attribute of the row's subject; all are null where that is None."""
    return (field._replace(get=_inside(what, field)) for field in fields)


def _inside(what: str, field: RowField) -> Callable[[Any], object]:
    outer, inner = _attribute(what), field.getter

    def get(subject: object) -> object:
        found = outer(subject)
        return None if found is None else inner(found)

    return get


def values(fields: Iterable[RowField], subject: object) -> dict[str, Any]:
    """Build the part of a row that these fields describe; all are null without a subject."""
    return {field.key: None if subject is None else field.getter(subject) for field in fields}


TOPIC = (
    text("topic", "the topic, from the name of the directory"),
    int32("partition", "the number of the partition, likewise"),
)
FILE = text("file", "path of the file")
PARTITION = (*TOPIC, text("directory", "the directory of the partition", "path"))

REPLICAS = (
    ints("replicas", "nodes that hold the partition, by the newest metadata on the disk; null if unknown"),
    ints("isr", "those of them that were in sync"),
    int32("leader", "the leader; -1 for none"),
    time_ms("metadata_ms", "when that was written into the metadata"),
)
SEVERITIES = (
    int64("loss", "number of findings of this severity"),
    *(int64(name, "likewise") for name in ("no_start", "degraded", "note")),
    *inside("worst", word("worst", "the worst severity; null where nothing was found", "label")),
)
FAILURES = texts("failures", "what could not be read, in words")

HEADER = (
    int64("base_offset", "offset of the first record"),
    int64("last_offset", "offset of the last record"),
    int32("last_offset_delta", "last_offset minus base_offset, as stored"),
    int32("batch_length", "bytes behind the length field, as stored"),
    int32("partition_leader_epoch", "epoch of the leader that took the batch"),
    int32("magic", "format version: 2, or 0 or 1 in old logs"),
    int64("crc", "stored checksum"),
    int32("attributes", "attribute bits as a number, unknown ones included"),
    word("codec", "none, gzip, snappy, lz4, zstd; null for a number that names none", "codec_label"),
    word("timestamp_type", "CreateTime, LogAppendTime, NoTimestampType", "timestamp_type.value"),
    time_ms(
        "base_timestamp_ms", "timestamp that records count from; null with a delete horizon", "base_timestamp"
    ),
    time_ms("max_timestamp_ms", "greatest timestamp of the batch", "max_timestamp"),
    time_ms("delete_horizon_ms", "when compaction may drop tombstones of the batch; null where not set"),
    int64("producer_id", "id of the producer; -1 for none"),
    int16("producer_epoch", "epoch of the producer; -1 for none"),
    int32("base_sequence", "sequence number of the first record; -1 for none"),
    int32("last_sequence", "sequence number of the last record; -1 for none"),
    int32("records_count", "number of records, as stored; null in old formats"),
    flag("is_transactional", "whether it belongs to a transaction"),
    flag("is_control", "whether it holds control records, such as the end of a transaction"),
)
"""The fields of a batch header."""
BATCH = (
    *TOPIC,
    int64("segment", "base offset of the segment, from the name of the file"),
    *HEADER,
    int64("position", "byte in the file where it begins"),
    size("size", "bytes of the whole batch"),
    flag("is_valid", "whether the checksum matches"),
)
RECORD = (
    *TOPIC,
    int64("offset", "offset of the record", never_null=True),
    time_ms("timestamp_ms", "its timestamp; -1 for none", never_null=True),
    word("timestamp_type", "CreateTime, LogAppendTime, NoTimestampType", never_null=True),
    data("key", "the key; null for none (--print-data-log)", optional=True),
    data(
        "value",
        "the value; null for none, which is a tombstone in a compacted topic (--print-data-log)",
        optional=True,
    ),
    headers(
        "headers",
        "list of [name, value], order and duplicates kept (--print-data-log)",
        optional=True,
        never_null=True,
    ),
    items("header_keys", "names of the headers (without --print-data-log)", optional=True),
    int32("sequence", "sequence number; -1 for none, null in old formats"),
    int64("batch_position", "byte in the file where its batch begins", never_null=True),
    int64("key_size", "bytes of the key; -1 for null"),
    int64("value_size", "bytes of the value; -1 for null"),
    tree(
        "decoded",
        "what a control record or a record of an internal topic says: type, version, key, "
        "value, and error where it could not be read (--print-data-log)",
        optional=True,
    ),
)
VISIBILITY = (
    int64("producer_id", "id of the producer; -1 for none, null in old formats (cat and export)"),
    int16("producer_epoch", "epoch of the producer, likewise"),
    int32("partition_leader_epoch", "epoch of the leader that took the batch, likewise"),
    flag(
        "is_control",
        "whether it is a control record, such as the end of a transaction (cat and export)",
        never_null=True,
    ),
    word(
        "txn",
        "none, or what became of its transaction: committed, aborted, open, or unknown where that "
        "is lost in damage (cat and export)",
        never_null=True,
    ),
    flag("above_high_watermark", "whether consumers do not get it yet (cat and export)", never_null=True),
    flag(
        "below_log_start",
        "whether it is deleted, and only still on the disk (cat and export)",
        never_null=True,
    ),
)
"""Fields of records that `cat` and `export` add to those of `dump-log`."""
DAMAGE = (
    int64("position", "byte where it begins"),
    int64("end_position", "byte where good data may begin again (exclusive)"),
    int64("first_offset", "first offset at stake; null where unknown"),
    int64("last_offset", "last offset at stake; null where unknown"),
    int64("next_good_offset", "offset of the next good batch; null where there is none"),
    word(
        "class",
        "bad_crc, bad_length, bad_magic, bad_offset, bad_record, torn_tail, zero_filled, "
        "bit_flip, unreadable, too_large, in_flight, stale_index, bad_index, missing_file, "
        "bad_checkpoint, bad_snapshot, bad_metadata, overlap, gap; what holds the last stable offset "
        "(doctor, report): open_transaction; of a host (doctor): "
        "no_permission, host_limit, no_space, bad_mount",
        lambda damage: str(damage.kind),
    ),
    word(
        "severity",
        "loss (records gone or unreadable), no_start (a broker would refuse to start, or "
        "drop the log), degraded (works, or is rebuilt at start), note",
        "severity.label",
    ),
    text("expected", "what should be there"),
    text("found", "what is there"),
    text("message", "the same in a sentence"),
)
