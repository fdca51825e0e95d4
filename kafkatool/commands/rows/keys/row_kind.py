"""A kind of row, and the keys that several kinds have."""

from __future__ import annotations

from typing import NamedTuple


class RowKind(NamedTuple):
    """One kind of row."""

    command: str
    meaning: str
    keys: dict[str, str]
    optional: frozenset[str] = frozenset()
    """Keys that only some rows of this kind have; all others are always there, null where unknown."""


TOPIC = {
    "topic": "the topic, from the name of the directory",
    "partition": "the number of the partition, likewise",
}
FILE = {"file": "path of the file"}
OF_PARTITION = FILE | TOPIC
WEIGHT = {
    "files": "number of files",
    "size": "bytes that the files claim to have",
    "allocated": "bytes that they take on the disk; less than size where a file is sparse",
}
PLACE = {
    "log_dir": "the log directory, where one was named",
    "directory": "the directory of the partition",
    **TOPIC,
}
RANGE = {
    "first_offset": "first offset",
    "last_offset": "last offset",
    "first_timestamp_ms": "timestamp of the first batch",
    "max_timestamp_ms": "greatest timestamp",
}
TRANSACTIONS = (
    "objects: producer_id, producer_epoch, transactional_id (null where no __transaction_state at hand has "
    "it), first_offset, first_timestamp_ms (null where that batch does not tell), last_timestamp_ms, age_ms "
    "(at --at, or at the newest time on the disks), "
    "verdict (in_progress, will_be_aborted, will_be_committed, hanging, marker_lost, ask_coordinator), "
    "ends_by_ms (when it has ended by itself at the latest, its coordinator running; null where nothing says "
    "so), why (in words), fix (the command that ends it; null where none is to be given)"
)
PROBLEM = {"problem": "what kept the ranges from being found out, or is wrong at the end of the log"}
