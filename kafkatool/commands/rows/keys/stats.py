"""Rows of `stats`."""

from __future__ import annotations

from kafkatool.commands.rows.keys.row_kind import RowKind

_GROUP = {
    "by": "what the row is about: file, partition, topic, or total for everything together",
    "topic": "the topic, from the name of the directory; null for the total",
    "partition": "the number of the partition; null for topics and the total",
    "directory": "the directory of the partition, likewise",
    "file": "path of the file; null unless by is file",
}
_MEASURES = {
    "batches": "number of good batches",
    "records": "number of records in them",
    "size": "bytes of them",
}
_SPREAD = "as an object of min, mean, p50, p90, p99 and max; null where there is none"

ROW_KINDS: dict[str, RowKind] = {
    "stats": RowKind(
        "stats",
        "What the good batches of a group come to; with --deep also their records, control records aside. "
        "Percentiles are exact below 128, and at most 1.6 % too high above.",
        {
            **_GROUP,
            "partitions": "number of partitions; of a range, those that have something in it",
            "files": "number of files; of a range, those that have something in it",
            "size": "bytes of good batches",
            "batches": "number of good batches, or messages of the formats before magic 2",
            "records": "number of records in them, by their headers; of a range with --deep, those in it",
            "records_per_batch": f"records of a batch, {_SPREAD}",
            "batch_size": f"bytes of a batch, {_SPREAD}",
            "codecs": "for every codec an object of batches, records, size, and ratio: how many times larger "
            "they would be if not compressed (--deep, else null)",
            "magics": "for every format version an object of batches, records and size",
            "producers": "number of different producer ids",
            "producers_exact": "whether they were counted one by one, or else estimated",
            "idempotent_batches": "number of batches with a producer id",
            "transactional_batches": "number of batches that belong to a transaction, markers included",
            "control_batches": "number of control batches, such as markers",
            "timestamp_types": "for every type of timestamp the number of batches",
            "min_timestamp_ms": "least timestamp of records with --deep; else of the batches' first records, "
            "and others in a batch may be older. Control batches have no say in times",
            "max_timestamp_ms": "greatest timestamp",
            "no_timestamp_batches": "number of batches without a timestamp",
            "future_batches": "number of batches with a greatest timestamp after --now",
            "out_of_order_batches": "number of batches with a greatest timestamp below that before",
            "greatest_step_back_ms": "by how much at most",
            "records_per_second": "records by the time from the least to the greatest timestamp; null where "
            "that is none",
            "bytes_per_second": "bytes of batches, likewise",
            "first_offset": "first offset; null for topics and the total",
            "last_offset": "last offset, likewise",
            "gaps": "number of places where offsets are missing between batches: compaction leaves them, and "
            "damage",
            "missing_offsets": "number of offsets that no record has, between batches and inside them",
            "damaged": "number of damaged places, left out of everything else; with --deep also of batches "
            "whose records cannot be read, left out of what is said of records",
            "damaged_size": "bytes of them",
            "damage_classes": "for every class of damage the number of places, notes included",
            "data_records": "number of records that were read, without control records",
            "key_size": f"bytes of a key that is not null, {_SPREAD}",
            "value_size": f"bytes of a value that is not null, {_SPREAD}",
            "record_size": f"bytes of key and value, {_SPREAD}",
            "inflated_size": "bytes that the batches would have if none were compressed",
            "ratio": "how many times larger they would be",
            "keys": "number of different keys",
            "keys_exact": "whether they were counted one by one, or else estimated",
            "null_keys": "number of records without a key",
            "tombstones": "number of records without a value",
            "records_with_headers": "number of records that have headers",
            "headers": "number of headers",
            "no_timestamp_records": "number of records without a timestamp",
            "future_records": "number of records with a timestamp after --now",
            "out_of_order_records": "number of records with a timestamp below that of the one before",
            "greatest_record_step_back_ms": "by how much at most",
        },
        frozenset(
            {
                *("data_records", "key_size", "value_size", "record_size", "inflated_size", "ratio"),
                *("keys", "keys_exact", "null_keys", "tombstones", "records_with_headers", "headers"),
                *("no_timestamp_records", "future_records", "out_of_order_records"),
                "greatest_record_step_back_ms",
            }
        ),
    ),
    "stats_time": RowKind(
        "stats",
        "An hour of a group in which there are data batches; or a longer stretch, of 6 hours, 1, 7, 28, 364 "
        "days and so on, where there are more than 768. A batch counts where its greatest timestamp is.",
        {
            **_GROUP,
            "from_ms": "where the stretch begins",
            "to_ms": "where it ends (exclusive)",
            **_MEASURES,
        },
    ),
    "stats_key": RowKind(
        "stats",
        "One of the most frequent keys of a group (--deep).",
        {
            **_GROUP,
            "rank": "1 for the most frequent",
            "key": "the key, or the first 64 bytes of it; with --redact a hash",
            "key_size": "bytes of the whole key",
            "records": "number of records with it",
            "size": "bytes of their keys and values",
            "share": "records as a share of all data records, from 0 to 1",
            "is_exact": "whether all keys were counted; else numbers are estimated from a sample",
        },
    ),
    "stats_prefix": RowKind(
        "stats",
        "What many keys of a group begin with: up to a separator (: / | # @ . _ - or a space), or a zero and "
        "the four bytes of a schema's id. Only what two keys or more share (--deep).",
        {
            **_GROUP,
            "rank": "1 for the most frequent",
            "prefix": "what the keys begin with",
            "keys": "number of different keys that were seen with it",
            "records": "number of records with such a key",
            "size": "bytes of their keys and values",
            "share": "records as a share of all data records, from 0 to 1",
            "is_exact": "whether all keys were counted; else numbers are estimated from a sample",
        },
    ),
    "stats_what_if": RowKind(
        "stats",
        "What a sample of a group's batches takes with another codec (--what-if).",
        {
            **_GROUP,
            "codec": "none, gzip, snappy, lz4, zstd",
            "level": "its level; null for Kafka's default",
            "batches": "number of batches in the sample",
            "stored_size": "bytes of them as they are",
            "inflated_size": "bytes of their records, not compressed",
            "size": "bytes of the batches with this codec",
            "saved_share": "what that saves, as a share of stored_size; below 0 where it costs",
            "projected_size": "bytes of the whole group, if the sample is like the rest",
            "seconds": "time that it took to compress the sample here",
        },
    ),
}
