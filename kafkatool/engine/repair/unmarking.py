"""Find what depends on a broker alone, by its own metadata, before its clean shutdown marker is removed."""

from __future__ import annotations

import os
from typing import NamedTuple

from kafkatool.engine.cluster.view import read_cluster_view
from kafkatool.engine.directory.log_dir import read_log_dir, read_partition
from kafkatool.engine.files.lock import CLEAN_MARKER
from kafkatool.engine.files.source import Guest
from kafkatool.engine.repair.standing import Objection, objections_to_unmarking
from kafkatool.format.names import METADATA_PARTITION


class Unmarking(NamedTuple):
    """Partitions of which no other node had a complete copy, at the time of the newest metadata."""

    objections: list[Objection]
    metadata_ms: int


def judge_unmarking(log_dir: str, guest: Guest) -> Unmarking:
    """Judge by the metadata in this log directory; nothing is read if there is no marker."""
    metadata = os.path.join(log_dir, METADATA_PARTITION)
    if not os.path.lexists(os.path.join(log_dir, CLEAN_MARKER)) or not os.path.isdir(metadata):
        return Unmarking([], -1)
    meta = read_log_dir(log_dir, guest, partitions=False).meta
    if meta is None or meta.node_id is None:
        return Unmarking([], -1)
    view = read_cluster_view([read_partition(metadata, [], guest)], guest)
    return Unmarking(list(objections_to_unmarking(view, meta.node_id)), view.last_ms)
