"""Where consumer groups stand: what the partitions of `__consumer_offsets` on a disk say of them."""

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
"""Topic and partition -> group -> the offset that it would read next."""


def read_group_offsets(partitions: Iterable[Partition], guest: Guest) -> GroupOffsets:
    """The newest commit of every group, as far as these partitions hold it; damage is passed over.

    A commit inside a transaction counts whether or not that was committed: it is where the group has been.
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
