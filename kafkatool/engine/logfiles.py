"""The logs behind a target, in the order in which they are read."""

from __future__ import annotations

import os
from collections.abc import Iterator

from kafkatool.engine.lookup import Range
from kafkatool.engine.paths import FileTarget, LogDirTarget, PartitionTarget, Target
from kafkatool.format import kinds
from kafkatool.format.kinds import kind_of
from kafkatool.format.names import FileState, parse_partition_directory

_LOGS = (kinds.LOG, kinds.RAFT_SNAPSHOT)


def log_groups(target: Target, wanted: Range) -> Iterator[list[str]]:
    """The files that a target stands for, a list for every partition; a file stands for itself.

    A directory stands for its logs and metadata snapshots, in every state (`.deleted`, `.swap` …).
    Segments that lie outside the wanted offsets by their names are left out.
    """
    match target:
        case FileTarget(path):
            yield [path]
        case PartitionTarget(path):
            yield _partition_logs(path, wanted)
        case LogDirTarget(path):
            for name in sorted(os.listdir(path)):
                below = os.path.join(path, name)
                if parse_partition_directory(name) is not None and os.path.isdir(below):
                    yield _partition_logs(below, wanted)


def _partition_logs(directory: str, wanted: Range) -> list[str]:
    try:
        names = os.listdir(directory)
    except FileNotFoundError:  # deleted since its parent was listed
        return []
    found = sorted(
        (named.kind.name, named.offset or 0, name) for name in names if (named := kind_of(name)).kind in _LOGS
    )
    bases = sorted(
        offset
        for kind, offset, name in found
        if kind == kinds.LOG.name and kind_of(name).state is FileState.LIVE
    )
    return [
        os.path.join(directory, name)
        for kind, offset, name in found
        if kind != kinds.LOG.name or _may_hold(wanted, offset, bases)
    ]


def _may_hold(wanted: Range, base: int, bases: list[int]) -> bool:
    if wanted.to_offset is not None and base >= wanted.to_offset:
        return False
    if wanted.from_offset is None:
        return True
    following = next((other for other in bases if other > base), None)
    return following is None or following > wanted.from_offset
