"""Take partitions out of the log directories of a stopped broker, so that it fetches them again.

Done in this order: the clean shutdown marker is removed, as by every plan; the partition's lines are removed
from the checkpoints (a log start above the end of the new log would have it deleted); partition.metadata is
moved first, because a broker that finds the rest without it serves none of it; then all other files, and
finally the empty directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kafkatool.engine.cluster.metadata_end import last_written
from kafkatool.engine.cluster.view import ClusterView
from kafkatool.engine.directory.extent import partition_extent
from kafkatool.engine.directory.log_dir import LogDir, Partition, PartitionState, read_log_dir
from kafkatool.engine.files.source import Guest, read_small_file
from kafkatool.engine.plan.evidence import gather_evidence
from kafkatool.engine.plan.steps import Plan, Step, remove, remove_directory, write
from kafkatool.engine.repair.standing import standings
from kafkatool.errors import FormatError, KafkatoolError, Refused, UsageError
from kafkatool.format import kinds
from kafkatool.format.names import TopicPartition
from kafkatool.format.state.checkpoint import read_offset_checkpoint, write_offset_checkpoint

COMMAND = "set-aside"
_CHECKPOINTS = (kinds.LOG_STARTS, kinds.RECOVERY_POINTS, kinds.HIGH_WATERMARKS, kinds.CLEANER_OFFSETS)


@dataclass(frozen=True, slots=True)
class Moved:
    """One partition to take out."""

    log_dir: LogDir
    partition: Partition

    @property
    def key(self) -> TopicPartition:
        return self.partition.key

    @property
    def is_current(self) -> bool:
        """Whether the cluster counts on it: not on a future, stray or deleted copy."""
        return self.partition.state is PartitionState.ACTIVE


def find_moved(paths: Iterable[str], guest: Guest) -> list[Moved]:
    """Return the partitions in these directories, each with its log directory as it is now.

    Raises UsageError for anything else, Refused for the metadata log.
    """
    log_dirs: dict[str, LogDir] = {}
    found = {}
    for path in map(os.path.normpath, paths):
        if os.path.islink(path):
            raise UsageError(f"{path}: a link: name the directory that it leads to")
        parent, name = os.path.dirname(path) or os.curdir, os.path.basename(path)
        if parent not in log_dirs:
            log_dirs[parent] = read_log_dir(parent, guest)
        log_dir = log_dirs[parent]
        one = next((each for each in log_dir.partitions if each.directory == name), None)
        if one is None or one.topic is None or one.partition is None:
            raise UsageError(f"{path}: not the directory of a partition")
        if one.state is PartitionState.METADATA:
            raise Refused(
                f"{path}: the metadata of the cluster is never set aside: without it this is another cluster"
            )
        found[one.path] = Moved(log_dir, one)
    return list(found.values())


def node_of(moved: Sequence[Moved]) -> int:
    """Return the broker that owns all of them. Raises Refused if it is unknown, or not a single one."""
    nodes = {None if one.log_dir.meta is None else one.log_dir.meta.node_id for one in moved}
    node = nodes.pop()
    if node is None or nodes:
        raise Refused(
            f"{moved[0].log_dir.path}: which node this is cannot be told from {kinds.META_PROPERTIES.name}"
        )
    return node


def objections_to_picture(view: ClusterView, moved: Sequence[Moved]) -> Iterator[str]:
    """Yield why a snapshot of the cluster proves nothing: it is too old, or of another cluster."""
    newest = last_written(_log_dirs(moved))
    if newest is not None and view.last_ms < newest.modified_ms:
        yield (
            f"{newest.path}: was written to after the picture of the cluster was taken: "
            "take it when the broker is down"
        )
    yield from _not_shown(view, moved)
    known = {one.topic_id for each in moved for one in each.log_dir.partitions if one.topic_id is not None}
    has_ids = any(topic_id != name for topic_id, name in view.topic_ids.items())
    if known and has_ids and not known & view.topic_ids.keys():
        yield "the picture is of another cluster: it has none of the topics of this broker"


def _not_shown(view: ClusterView, moved: Sequence[Moved]) -> Iterator[str]:
    """Yield a partition of this broker that the snapshot does not show: it must cover all topics."""
    shown = {key for key, _ in standings(view)}
    held = {
        one.key
        for log_dir in _log_dirs(moved)
        for one in log_dir.partitions
        if one.state is PartitionState.ACTIVE
    }
    moving = {one.key for one in moved}
    missing = [f"{topic}-{number}" for topic, number in sorted(held - shown - moving, key=str)]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        yield (
            f"the picture of the cluster does not show {missing[0]}{more}, which this broker has: "
            "describe all topics, internal ones too"
        )


def _log_dirs(moved: Sequence[Moved]) -> list[LogDir]:
    return list({one.log_dir.path: one.log_dir for one in moved}.values())


def stake_of(one: Moved, guest: Guest) -> str:
    """Describe which offsets a partition holds, as far as they can be read."""
    extent = partition_extent(one.partition, guest)
    if extent.first_offset is None or extent.last_offset is None:
        return "holds no offset that can be read"
    count = extent.last_offset - extent.first_offset + 1
    return f"holds offsets {extent.first_offset} to {extent.last_offset}, up to {count} records"


def plans_to_set_aside(moved: Sequence[Moved], move_to: str, guest: Guest, *, is_applied: bool) -> list[Plan]:
    """Return one plan per log directory."""
    return [
        _plan(log_dir, [one for one in moved if one.log_dir is log_dir], move_to, guest, is_applied)
        for log_dir in _log_dirs(moved)
    ]


def _plan(log_dir: LogDir, moved: Sequence[Moved], move_to: str, guest: Guest, is_applied: bool) -> Plan:
    checkpoints = tuple(_without(log_dir, {one.key for one in moved if one.is_current}, guest))
    files = [step for one in moved for step in _files(one.partition, move_to)]
    first = tuple(step for step in files if _is_id(step))
    rest = tuple(step for step in files if not _is_id(step))
    directories = tuple(remove_directory(one.partition.path, "nothing is left in it") for one in moved)
    targets = [os.path.join(move_to, one.partition.directory) for one in moved]
    evidence = gather_evidence(log_dir, [one.partition for one in moved], with_content=is_applied)
    return Plan(
        COMMAND,
        log_dir.path,
        tuple(stage for stage in (checkpoints, first, rest, directories) if stage),
        evidence=evidence,
        directories=(move_to, *targets),
    )


def _is_id(step: Step) -> bool:
    return os.path.basename(step.path) == kinds.PARTITION_METADATA.name


def _files(partition: Partition, move_to: str) -> Iterator[Step]:
    with os.scandir(partition.path) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if not entry.is_file(follow_symlinks=False):
                raise KafkatoolError(f"{entry.path}: is not a file: it is not touched")
            target = os.path.join(move_to, partition.directory, entry.name)
            yield remove(entry.path, "set aside with its partition", target)


def _without(log_dir: LogDir, keys: set[TopicPartition], guest: Guest) -> Iterator[Step]:
    """Yield the checkpoints without these partitions' lines. Raises KafkatoolError for a bad one."""
    for kind in _CHECKPOINTS:
        path = os.path.join(log_dir.path, kind.name)
        if not any(entry.name == kind.name for entry in log_dir.files):
            continue
        try:
            known = read_offset_checkpoint(read_small_file(path, guest))
        except FormatError as error:
            raise KafkatoolError(f"{path}: {error}") from None
        left = [one for one in known if (one.topic, one.partition) not in keys]
        if len(left) < len(known):
            yield write(path, write_offset_checkpoint(left), "the partition begins anew")
