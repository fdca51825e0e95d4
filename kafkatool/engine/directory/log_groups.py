"""The logs that the named paths stand for, in reading order."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator

from kafkatool.engine.batches.seek import Range
from kafkatool.engine.directory.log_dir import ListingProblem
from kafkatool.engine.directory.selection import Selection
from kafkatool.engine.directory.targets import FileTarget
from kafkatool.engine.jobs.events import Failure
from kafkatool.format import kinds
from kafkatool.format.kinds import kind_of
from kafkatool.format.names import FileState

_LOGS = (kinds.LOG, kinds.RAFT_SNAPSHOT)


def log_groups(selection: Selection, wanted: Range) -> Generator[list[str] | Failure, None, None]:
    """Yield the named files, one list per partition; a file stands for itself.

    A directory stands for its logs and metadata snapshots, in every state (`.deleted`, `.swap` …).
    Segments whose names put them outside the wanted offsets are left out. What cannot be listed yields
    a failure, and the rest follows.
    """
    for target in selection.targets:
        problems: list[ListingProblem] = []
        if isinstance(target, FileTarget):
            yield [target.path]
        for place in selection.places_of(target, problems, by_name=True):
            inside = [one for one in problems if one.path.startswith(os.path.join(place.partition.path, ""))]
            yield from _failures(one for one in problems if one not in inside)
            # A file whose size cannot be read fails later, when it is opened.
            paths = [*(one.path for one in place.partition.files), *(one.path for one in inside)]
            yield _logs_among(paths, wanted)
            problems.clear()
        yield from _failures(problems)


def _failures(problems: Iterable[ListingProblem]) -> Iterator[Failure]:
    for one in problems:
        if not one.vanished:  # deleted since its parent was listed
            yield Failure(f"{one.path}: {one.message}")


def _logs_among(paths: list[str], wanted: Range) -> list[str]:
    found = []
    for path in paths:
        named = kind_of(os.path.basename(path))
        if named.kind in _LOGS:
            found.append((named.kind.name, named.offset or 0, path, named.state))
    found.sort(key=lambda one: one[:3])
    bases = [
        offset for kind, offset, _path, state in found if kind == kinds.LOG.name and state is FileState.LIVE
    ]
    return [
        path
        for kind, offset, path, _state in found
        if kind != kinds.LOG.name or may_hold(wanted, offset, bases)
    ]


def may_hold(wanted: Range, base: int, bases: list[int]) -> bool:
    """Whether a segment may hold wanted offsets, judged by all base offsets (`bases` in order)."""
    if wanted.to_offset is not None and base >= wanted.to_offset:
        return False
    if wanted.from_offset is None:
        return True
    following = bisect_right(bases, base)
    return following == len(bases) or bases[following] > wanted.from_offset
