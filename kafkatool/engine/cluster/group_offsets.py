"""Read the committed offsets of consumer groups from the partitions of `__consumer_offsets` on disk."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, cast

from kafkatool.engine.cluster.transactional_ids import newest_values
from kafkatool.engine.directory.log_dir import Partition, PartitionState
from kafkatool.engine.files.source import Guest
from kafkatool.format.names import TopicPartition
from kafkatool.format.schema import Decoder, decode_row

TOPIC = "__consumer_offsets"

GroupOffsets = dict[TopicPartition, dict[str, int]]
"""Topic and partition -> group -> the next offset it would read."""


def read_group_offsets(partitions: Iterable[Partition], guest: Guest) -> GroupOffsets:
    """Return the newest commit of every group in these partitions; damage is skipped.

    A commit inside a transaction counts even if it was not committed: it is where the group has been.
    """
    found: GroupOffsets = defaultdict(dict)
    for partition in partitions:
        if partition.topic != TOPIC or partition.state is not PartitionState.ACTIVE:
            continue
        for key, value in newest_values(partition, guest).values.items():
            row = decode_row(Decoder.OFFSETS, key, value)
            name, commit = cast(Any, row.get("key")), cast(Any, row.get("value"))
            if row.get("type") in ("OffsetCommit", "LegacyOffsetCommit") and name and commit:
                found[name["topic"], name["partition"]][name["group"]] = commit["offset"]
    return found
