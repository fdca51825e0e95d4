"""The metadata log of a KRaft node, loaded by its own rules on top of those for any log.

It is always scanned from its first byte, clean shutdown or not, and no checkpoint covers it. Then its
snapshots are sorted out; if the newest is ahead of the log, the log starts over after it.

    .checkpoint.part, .checkpoint.deleted      go
    a snapshot below the start of the log      goes
    a log that starts above 0, no snapshot     the node does not start
    the newest snapshot damaged or empty       the node does not start
"""

from __future__ import annotations

from typing import NamedTuple

from kafkatool.engine.batches.damage import Damage
from kafkatool.engine.batches.scan import scan
from kafkatool.engine.recover.result import BrokerThrows, PartitionLoading
from kafkatool.engine.recover.truncation import start_anew_at
from kafkatool.format.names import SnapshotName, parse_snapshot_name

_SNAPSHOT = ".checkpoint"
_PARTIAL = ".checkpoint.part"
_DELETED = ".checkpoint.deleted"


class _Snapshot(NamedTuple):
    """A snapshot; the one with the higher epoch is newer, whatever the offsets."""

    epoch: int
    offset: int
    file: str


def sort_out_snapshots(log: PartitionLoading, end: int) -> int:
    """Do what a node does to its snapshots, and then to the log; return the resulting log end."""
    start = log.bases[0]
    kept = []
    for file in list(log.dir):
        if not file.endswith((_SNAPSHOT, _PARTIAL, _DELETED)):
            continue
        name = _parsed(file)
        if file.endswith(_SNAPSHOT) and name.offset >= start:
            kept.append(_Snapshot(name.epoch, name.offset, file))
        else:
            log.drop_leftover(file, "a snapshot that is not needed: unfinished, deleted or below the log")
    if not kept:
        if start > 0:
            raise BrokerThrows(
                f"the metadata log starts at {start}, and no snapshot holds what came before: "
                "Inconsistent snapshot state"
            )
        return end
    newest = max(kept)
    _check_newest(log, newest.file)
    latest = log.epochs.latest
    epoch = latest.epoch if latest is not None else 0
    if newest.epoch < epoch or (newest.epoch == epoch and newest.offset <= end):
        return end
    # Nothing is lost: the snapshot contains what the log held.
    why = f"the log ends at {end}, and the snapshot {newest.file} goes beyond"
    start_anew_at(log, newest.offset, why, "leftover")
    for snapshot in kept:
        if snapshot != newest:
            log.drop_leftover(snapshot.file, f"older than the snapshot {newest.file}")
    return newest.offset


def _check_newest(log: PartitionLoading, file: str) -> None:
    """Raise BrokerThrows if a node could not read its newest snapshot; a torn tail does not matter to it."""
    batches = 0
    with log.dir.open(file) as source:
        for item in scan(source, chain=True):
            if isinstance(item, Damage):
                if item.ends_chain and item.throws:
                    raise BrokerThrows(f"{file}: the newest snapshot cannot be read: {item.message}")
                if item.ends_chain:
                    break
            elif not item.is_valid:
                raise BrokerThrows(f"{file}: the newest snapshot cannot be read: a checksum does not match")
            else:
                batches += 1
    if not batches:
        raise BrokerThrows(f"{file}: the newest snapshot is empty")


def _parsed(file: str) -> SnapshotName:
    name = parse_snapshot_name(file)
    if name is None:
        raise BrokerThrows(f"{file}: no offset and epoch in the name of a snapshot")
    return name
