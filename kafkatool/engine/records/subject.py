"""One partition to read: which of its logs, and how far consumers may read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from kafkatool.engine.batches.partition_walk import SegmentLog
from kafkatool.engine.batches.seek import EVERYWHERE, Range
from kafkatool.engine.directory.log_dir import LogDir, Partition, read_log_dir
from kafkatool.engine.directory.log_groups import may_hold
from kafkatool.engine.directory.selection import Home, NamedPartition
from kafkatool.engine.files.source import Guest
from kafkatool.engine.records.visibility import LOG_END
from kafkatool.errors import KafkatoolError, UsageError


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The checkpoint entries of one partition; None where there is none."""

    high_watermark: int | None = None
    log_start: int | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """One partition to read, and its limits."""

    named: NamedPartition
    home: str
    limits: ReadLimits
    chosen_high_watermark: int | None = None
    """The high watermark to use instead of the checkpoint's; LOG_END for no limit."""

    @property
    def partition(self) -> Partition:
        return self.named.partition

    @property
    def name(self) -> str:
        return self.partition.directory

    @property
    def high_watermark(self) -> int:
        chosen = self.chosen_high_watermark
        if chosen is None:
            chosen = self.limits.high_watermark
        return LOG_END if chosen is None else chosen

    @property
    def log_start(self) -> int:
        return self.limits.log_start or 0

    def read_limits(self, guest: Guest) -> ReadLimits:
        """Return the current limits from the checkpoints; the old ones if these cannot be read."""
        try:
            log_dir = read_log_dir(self.home, guest, partitions=False)
        except KafkatoolError:
            return self.limits
        return _limits(log_dir, self.partition, self.limits)


def logs_of(
    named: NamedPartition, partition: Partition | None = None, wanted: Range = EVERYWHERE
) -> list[SegmentLog]:
    """Return the selected logs: the live ones of a directory, or the named files.

    Logs whose names put them outside the wanted offsets are left out.
    """
    found = partition or named.partition
    live = {one.base_offset for one in found.live_segments if one.log}
    chosen = []
    for segment in found.segments:
        is_meant = segment.is_live if named.bases is None else segment.base_offset in named.bases
        # If there is a live log, those of the same base offset in other states are not selected.
        if is_meant and segment.log and (segment.is_live or segment.base_offset not in live):
            chosen.append(SegmentLog(segment.base_offset, segment.log.path))
    bases = [log.base_offset for log in chosen]
    return [log for log in chosen if may_hold(wanted, log.base_offset, bases)]


def subjects_of(homes: list[Home], chosen_high_watermark: int | None) -> Iterator[Subject]:
    """Yield every selected partition with its limits; raises UsageError for files without their log."""
    for home in homes:
        for named in home.partitions:
            if named.bases is not None and not logs_of(named):
                raise UsageError(f"{named.partition.path}: the log of what is named there is missing")
            limits = _limits(home.log_dir, named.partition)
            yield Subject(named, home.path, limits, chosen_high_watermark)


def _limits(log_dir: LogDir, partition: Partition, known: ReadLimits | None = None) -> ReadLimits:
    key, before = partition.key, known or ReadLimits()
    return ReadLimits(
        log_dir.high_watermarks.get(key, before.high_watermark),
        log_dir.log_starts.get(key, before.log_start),
    )


def is_inside(path: str, directory: str) -> bool:
    """Whether a path, which need not exist, lies in a directory."""
    real, parent = os.path.realpath(path), os.path.realpath(directory)
    return real == parent or real.startswith(parent.rstrip(os.sep) + os.sep)
