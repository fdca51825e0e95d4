"""Find what a broker resolves when it starts: leftover files, and partitions of unknown topics."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.directory.log_dir import Segment, SegmentState
from kafkatool.engine.verify.finding import A_LOG
from kafkatool.engine.verify.log_dir import DirProblem
from kafkatool.engine.verify.place import CheckedPlace
from kafkatool.engine.verify.side_files import state_damage
from kafkatool.format import kinds


def excused(place: CheckedPlace, damage: Damage, why: str) -> Damage:
    """Return the damage, as a note if a running broker is about to change the file."""
    if not place.is_live:
        return damage
    return replace(damage, severity=Severity.NOTE, message=f"{damage.message}; {why}")


def topic_id_problems(place: CheckedPlace) -> Iterator[DirProblem]:
    """Check whether the cluster knows the partition's topic id."""
    partition, view = place.partition, place.view
    if view is None or not (view.is_known and view.is_complete) or place.key is None:
        return
    if partition.topic is None or partition.topic_id is None:
        return
    known = view.ids_of(partition.topic)
    if partition.topic_id in known:
        return
    path = os.path.join(partition.path, kinds.PARTITION_METADATA.name)
    message = "the cluster knows no topic of this id: a broker sets the partition aside as stray"
    expected = known[-1] if known else "a topic that the cluster's metadata knows"
    damage = state_damage(
        FindingClass.BAD_METADATA, message, expected, partition.topic_id, severity=Severity.NO_START
    )
    yield DirProblem(path, damage)


def leftover_problems(place: CheckedPlace) -> Iterator[DirProblem]:
    """Yield files that a broker resolves at its next start."""
    for segment in place.partition.segments:
        if segment.state is SegmentState.ORPHAN:
            message = "indexes without their log: the log is lost, or was being deleted"
            damage = state_damage(FindingClass.MISSING_FILE, message, A_LOG, "none")
            damage = excused(place, damage, "a running broker may be swapping segments")
            yield DirProblem(segment.files[0].path, replace(damage, first_offset=segment.base_offset))
        elif not segment.is_live:
            path = (segment.log or segment.files[0]).path
            yield DirProblem(path, excused(place, _leftover(segment), "a running broker may be at it"))


def _leftover(segment: Segment) -> Damage:
    effect = {
        SegmentState.SWAP: "a broker puts it in the place of the segments that it covers",
        SegmentState.CLEANED: "cleaning did not finish: a broker throws it away",
    }.get(segment.state, "waiting to be deleted")
    severity = Severity.DEGRADED if segment.state is SegmentState.SWAP else Severity.NOTE
    message = f"left over ({segment.state}): {effect}"
    damage = state_damage(
        FindingClass.OVERLAP, message, "nothing", f"{len(segment.files)} files", severity=severity
    )
    return replace(damage, first_offset=segment.base_offset)
