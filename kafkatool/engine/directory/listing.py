"""List everything that the user named."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from kafkatool.engine.directory.log_dir import ListingProblem, LogDir
from kafkatool.engine.directory.selection import SelectedPlace, Selection
from kafkatool.engine.directory.targets import Target
from kafkatool.engine.directory.topic_names import restore_topic_names
from kafkatool.engine.files.source import Guest


@dataclass(frozen=True, slots=True)
class Listed:
    """Log directories and partitions, by topic and number within each target; files last."""

    log_dirs: list[LogDir]
    places: list[SelectedPlace]
    problems: list[ListingProblem]
    loose: list[LogDir]
    """Log directories whose own files count, too."""

    def only(self, states: Collection[str]) -> Listed:
        """Return the partitions in these states, without what belongs to no partition."""
        return replace(self, places=[one for one in self.places if one.partition.state in states], loose=[])


def list_places(targets: list[Target], guest: Guest) -> Listed:
    """List what was named. Raises KafkatoolError."""
    selection = Selection(targets, guest)
    restore_topic_names(selection.log_dirs, guest)
    problems = [problem for log_dir in selection.log_dirs for problem in log_dir.problems]
    places: list[SelectedPlace] = []
    for target in targets:
        places += sorted(selection.places_of(target, problems), key=_order)
    places += selection.files(problems)
    return Listed(selection.log_dirs, places, problems, selection.log_dirs)


def _order(place: SelectedPlace) -> tuple[str, int, str]:
    partition = place.partition
    number = -1 if partition.partition is None else partition.partition
    return partition.topic or partition.directory, number, partition.directory
