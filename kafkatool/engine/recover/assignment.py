"""What a starting broker does with a partition directory by the cluster's metadata: stray, or promoted.

If metadata is missing or damaged nothing is concluded: what is not in it proves nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from kafkatool.engine.cluster.view import ClusterView
from kafkatool.engine.directory.log_dir import LogDir, Partition, PartitionState


class PartitionFate(NamedTuple):
    """stray: renamed and not served; promote: a copy becomes current; empty: a copy loses its records."""

    what: str
    message: str
    home: str | None = None
    """Where a copy that is about to be emptied belongs."""

    @property
    def is_bad(self) -> bool:
        return self.what != "promote"


def fate_of(
    partition: Partition, log_dir: LogDir, log_dirs: Sequence[LogDir], view: ClusterView
) -> PartitionFate | None:
    """Return what happens to a directory, by the metadata on the broker's disks; None if it just stays.

    `log_dirs` are all known directories of the broker.
    """
    if partition.state not in (PartitionState.ACTIVE, PartitionState.FUTURE):
        return None
    if not (view.is_known and view.is_complete) or partition.partition is None or log_dir.meta is None:
        return None
    node_id = log_dir.meta.node_id
    if partition.topic_id is None:
        text = "no partition.metadata says which topic this is: a broker sets the partition aside as stray"
        return PartitionFate("stray", text)
    known = view.partitions.get((partition.topic_id, partition.partition))
    if known is None:
        text = f"the metadata has no topic {partition.topic_id} with this partition: it is set aside as stray"
        return PartitionFate("stray", text)
    if node_id is not None and node_id not in known.replicas:
        nodes = ", ".join(map(str, known.replicas))
        return PartitionFate(
            "stray", f"the metadata gives it to node {nodes}, not to {node_id}: it is set aside as stray"
        )
    if partition.state is PartitionState.FUTURE:
        return _fate_of_copy(partition, log_dir, log_dirs, known.directory_of(node_id))
    return None


def _fate_of_copy(
    partition: Partition, log_dir: LogDir, log_dirs: Sequence[LogDir], assigned: str | None
) -> PartitionFate | None:
    """Return what happens to a future replica if the broker stopped during the move."""
    assert log_dir.meta is not None
    if assigned is None:
        return None
    if assigned == log_dir.meta.directory_id:
        return PartitionFate(
            "promote", "the metadata has the partition here already: this copy takes its place"
        )
    home = next((one for one in log_dirs if one.meta and one.meta.directory_id == assigned), None)
    if home is None or any(_is_current(one, partition) for each in log_dirs for one in each.partitions):
        return None
    name = f"{partition.topic}-{partition.partition}"
    return PartitionFate(
        "empty",
        f"the metadata has the partition in {home.path}, where it is missing: a broker makes an empty one "
        "there, and cuts this copy down to it",
        os.path.join(home.path, name),
    )


def _is_current(one: Partition, copy: Partition) -> bool:
    return one.state is PartitionState.ACTIVE and one.key == copy.key
