"""One run of `set-aside`: find the partitions, judge what the cluster would lose, plan."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kafkatool.engine.advice.table import Advice
from kafkatool.engine.cluster.view import ClusterView, read_cluster_view
from kafkatool.engine.directory.log_dir import Partition, PartitionState, read_log_dir, read_partition
from kafkatool.engine.files.source import Guest
from kafkatool.engine.jobs.events import Caution, Note
from kafkatool.engine.plan.steps import Plan
from kafkatool.engine.repair.describe_text import read_description
from kafkatool.engine.repair.reassigning import reassignments
from kafkatool.engine.repair.second_copy import objections_to_second_copy
from kafkatool.engine.repair.set_aside import (
    find_moved,
    node_of,
    objections_to_picture,
    plans_to_set_aside,
    stake_of,
)
from kafkatool.engine.repair.standing import objections_to_moving
from kafkatool.errors import Refused, UsageError


@dataclass(frozen=True, slots=True)
class SetAsideRequest:
    """Where partitions are moved to, and what proves that nothing is lost."""

    move_to: str
    now_ms: int
    describe: str | None = None
    """A file with a description of the cluster, or - for standard input."""
    metadata: str | None = None
    """The metadata log of a controller, or its log directory."""
    second_copy: str | None = None
    """Another copy on the same broker, which stays."""
    accepts_loss: bool = False
    is_applied: bool = False

    @property
    def has_picture(self) -> bool:
        """Whether the cluster is described, more reliably than by this broker's own metadata."""
        return self.describe is not None or self.metadata is not None


class SetAsideRun:
    """The partitions in some directories of one broker."""

    def __init__(self, paths: Sequence[str], request: SetAsideRequest, guest: Guest) -> None:
        """Find the partitions. Raises UsageError and Refused for what cannot be set aside."""
        self._moved = find_moved(paths, guest)
        if not self._moved:
            raise UsageError("set-aside needs the directory of a partition")
        self._node = node_of(self._moved)
        self._current = {one.key for one in self._moved if one.is_current}
        self._request, self._guest = request, guest

    def judge(self) -> Iterator[Note | Caution]:
        """Yield another way, doubts and what is at stake; raise Refused unless a loss is accepted."""
        request = self._request
        if request.second_copy is not None:
            doubts = self._doubts_of_second_copy(request.second_copy)
        elif not request.has_picture:
            doubts = [
                "how the rest of the cluster stands is not known; with the broker down, run "
                f"{Advice.DESCRIBE()} and name the file with --describe, or name a controller's disk with "
                "--metadata"
            ]
        else:
            view = self._picture()
            yield from self._other_way(view)
            doubts = list(objections_to_picture(view, self._moved))
            doubts += [one.sentence for one in objections_to_moving(view, self._node, self._current)]
        yield from map(Caution, doubts)
        if not doubts:
            return
        for one in self._moved:
            watermark = one.log_dir.high_watermarks.get(one.key, "unknown")
            stake = stake_of(one, self._guest)
            yield Caution(f"{one.partition.path}: {stake}, high watermark {watermark}")
        if not request.accepts_loss:
            raise Refused("acknowledged records could be lost; --accept-loss proceeds anyway")

    def plans(self) -> list[Plan]:
        """Return one plan per log directory."""
        request = self._request
        return plans_to_set_aside(self._moved, request.move_to, self._guest, is_applied=request.is_applied)

    def waiting(self) -> Iterator[Note]:
        """Yield what to wait for when the plans have been applied; nothing if a second copy stays."""
        if self._request.second_copy is not None:
            return
        for topic in sorted({topic for topic, _ in self._current}):
            yield Note(
                f"start the broker, and stop no other until node {self._node} is back in the Isr of {topic}: "
                f"{Advice.DESCRIBE_TOPIC(topic=topic)}"
            )

    def _doubts_of_second_copy(self, path: str) -> list[str]:
        if self._request.has_picture:
            raise UsageError("--second-copy excludes --describe and --metadata")
        if len(self._moved) > 1:
            raise UsageError("--second-copy is about one partition")
        kept = find_moved([path], self._guest)[0]
        return list(objections_to_second_copy(self._moved[0], kept, self._guest))

    def _picture(self) -> ClusterView:
        describe, metadata = self._request.describe, self._request.metadata
        if describe is not None and metadata is not None:
            raise UsageError("--describe and --metadata exclude each other")
        if describe == "-":
            view = read_description(sys.stdin, self._request.now_ms)
        elif describe is not None:
            with open(describe, encoding="utf-8", errors="replace") as file:
                view = read_description(file, int(os.fstat(file.fileno()).st_mtime * 1000))
        else:
            assert metadata is not None
            view = read_cluster_view(_metadata_partitions(metadata, self._guest), self._guest)
        if not view.is_known or not view.is_complete:
            raise Refused(
                f"{describe or metadata}: does not describe all partitions, so nothing can be judged"
            )
        return view

    def _other_way(self, view: ClusterView) -> Iterator[Note]:
        """Suggest reassignment: a broker that can run can give its partitions away and fetch them back."""
        ways = reassignments(view, self._node, self._current)
        if ways is not None:
            yield Note("if the broker can run, better let it: start it, give the partitions away,")
            yield Note(f"    {Advice.REASSIGN(plan=ways.away)}")
            yield Note("and when nothing is under way any more, bring them back:")
            yield Note(f"    {Advice.REASSIGN(plan=ways.back)}")


def _metadata_partitions(path: str, guest: Guest) -> list[Partition]:
    found = [read_partition(path, [], guest)]
    if found[0].state is not PartitionState.METADATA:
        found = read_log_dir(path, guest).partitions
    return [one for one in found if one.state is PartitionState.METADATA]
