"""The logs behind a target, in the order in which they are read."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator

from kafkatool.engine.batches.seek import Range
from kafkatool.engine.directory.targets import FileTarget, LogDirTarget, PartitionTarget, Target
from kafkatool.format import kinds
from kafkatool.format.kinds import kind_of
from kafkatool.format.names import FileState, parse_partition_directory

_LOGS = (kinds.LOG, kinds.RAFT_SNAPSHOT)


def log_groups(target: Target, wanted: Range, fail: Callable[[str], None]) -> Iterator[list[str]]:
    """The files that a target stands for, a list for every partition; a file stands for itself.

    A directory stands for its logs and metadata snapshots, in every state (`.deleted`, `.swap` …).
    Segments that lie outside the wanted offsets by their names are left out. A partition that cannot be
    listed is told to `fail`, and the others follow.
    """
    match target:
        case FileTarget(path):
            yield [path]
        case PartitionTarget(path):
            yield _partition_logs(path, wanted, fail)
        case LogDirTarget(path):
            for name in _listed(path, fail):
                below = os.path.join(path, name)
                if parse_partition_directory(name) is not None and os.path.isdir(below):
                    yield _partition_logs(below, wanted, fail)


def _listed(directory: str, fail: Callable[[str], None]) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except FileNotFoundError:  # deleted since its parent was listed
        return []
    except OSError as error:
        fail(f"{directory}: {error.strerror}")
        return []


def _partition_logs(directory: str, wanted: Range, fail: Callable[[str], None]) -> list[str]:
    names = _listed(directory, fail)
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
        if kind != kinds.LOG.name or may_hold(wanted, offset, bases)
    ]


def may_hold(wanted: Range, base: int, bases: list[int]) -> bool:
    """Whether a segment may have offsets that are wanted, by its name and those of the others, in order."""
    if wanted.to_offset is not None and base >= wanted.to_offset:
        return False
    if wanted.from_offset is None:
        return True
    following = bisect_right(bases, base)
    return following == len(bases) or bases[following] > wanted.from_offset
