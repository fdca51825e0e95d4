"""Plan what a broker would do to a partition at start-up after an unclean shutdown.

The steps and their order are those of the broker's loader:

    1  .deleted and .cleaned files are removed, and .swap files if a .cleaned one shows they are incomplete
    2  a complete swap is finished: the files it replaces are removed, and it is renamed
    3  indexes without a log are removed; a segment without an offset index, or with a wrong transaction
       index, is scanned and its indexes are rebuilt
    4  every segment from the recovery point on is scanned; the first one that must be cut ends the log, and
       all after it are removed
    5  a log that ends below its log start offset is deleted, and an empty one begins there
    6  leader epochs and producer snapshots are adjusted to what is left

If flipped bits may be mended, that comes first, and the broker is simulated through the rest.

If the broker throws, the partition, and with it the broker, does not start: `refusal` says why. For a
partition that waits to be deleted, only steps 1 to 3 happen before it is removed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafkatool.engine.batches.bit_flips import described_as_flip
from kafkatool.engine.batches.damage import Damage, FindingClass
from kafkatool.engine.batches.scan import scan
from kafkatool.engine.broker.checkpoint_effects import Effect, is_only_a_number_wrong
from kafkatool.engine.directory.log_dir import Partition, PartitionState
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.engine.plan.steps import NewEnd, Plan
from kafkatool.engine.plan.virtual import VirtualDirectory
from kafkatool.engine.recover.leftovers import drop_temporary_files, finish_swaps
from kafkatool.engine.recover.lookup import SegmentLookup
from kafkatool.engine.recover.mending import mend_logs
from kafkatool.engine.recover.metadata import sort_out_snapshots
from kafkatool.engine.recover.producers import finish_producers
from kafkatool.engine.recover.result import (
    BrokerThrows,
    DirectoryFails,
    Event,
    PartitionLoading,
    Recovered,
    StartFacts,
)
from kafkatool.engine.recover.segments import load_segments, recover_from_the_recovery_point
from kafkatool.engine.recover.truncation import make_empty_segment, start_anew_at
from kafkatool.errors import FormatError
from kafkatool.format.names import segment_file
from kafkatool.format.state.checkpoint import EpochStart, read_leader_epochs, write_leader_epochs
from kafkatool.format.state.partition_metadata import read_partition_metadata
from kafkatool.format.uuids import parse_uuid

COMMAND = "recover"
LEADER_EPOCHS = "leader-epoch-checkpoint"
TOPIC_ID = "partition.metadata"
METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def plan_recover(partition: Partition, how: StartFacts, guest: Guest) -> Recovered:
    """Simulate the broker on one partition directory; nothing is changed."""
    directory = VirtualDirectory(partition, guest)
    log = PartitionLoading(directory, how)
    result = log.result
    try:
        if partition.state is PartitionState.DELETED:
            _load_for_deletion(log)
            return result
        _load(log, guest, is_metadata=partition.state is PartitionState.METADATA)
    except BrokerThrows as error:
        result.refusal = str(error)
        needs_metadata = how.is_beside_metadata or partition.state is PartitionState.METADATA
        result.is_offline = isinstance(error, DirectoryFails) and not needs_metadata
        what = Effect.OFFLINE if result.is_offline else Effect.REFUSE
        result.events.append(Event(str(what), None, str(error)))
        return result
    # What a broker creates beside a misnamed log hides records: the name must be mended first.
    result.stages = [] if result.is_misnamed else directory.stages()
    result.unreadable = frozenset(directory.unreadable | _look_at_cuts(result, guest))
    return result


@dataclass(frozen=True, slots=True)
class RecoverRequest:
    """One partition to simulate the broker on, here or in a worker."""

    partition: Partition
    how: StartFacts

    @property
    def path(self) -> str:
        return self.partition.path

    @property
    def bytes_to_read(self) -> int:
        return sum(segment.log.size for segment in self.partition.live_segments if segment.log)

    def plan(self, guest: Guest, advance: Callable[[int], None]) -> Recovered:
        done = plan_recover(self.partition, self.how, guest)
        advance(self.bytes_to_read)
        return done


def _look_at_cuts(result: Recovered, guest: Guest) -> set[str]:
    """Find the last offset of a good batch in what is cut; return the files with unreadable parts."""
    unreadable = set()
    for path, position in result.cuts:
        is_open = False
        with open_source(path, guest) as source:
            for item in scan(source, position):
                is_open = isinstance(item, Damage) and item.kind is not FindingClass.ZERO_FILLED
                if isinstance(item, Damage):
                    if result.first_damage is None:
                        result.first_damage = described_as_flip(item, source, source.size_hint or 0)
                elif item.is_valid:
                    result.lost_to = max(result.lost_to or 0, item.header.last_offset)
            if source.unreadable:
                unreadable.add(path)
        result.is_lost_end_open = is_open
    return unreadable


def as_plan(log_dir: str, recovered: list[Recovered]) -> Plan:
    """Combine what can be done in one log directory; the partitions' stages run side by side."""
    done = [one for one in recovered if one.refusal is None]
    depth = max((len(one.stages) for one in done), default=0)
    stages = tuple(
        tuple(step for one in done if at < len(one.stages) for step in one.stages[at]) for at in range(depth)
    )
    ends = tuple(NewEnd(one.path, one.log_end, one.log_start) for one in done if one.log_end is not None)
    unreadable = frozenset(path for one in done for path in one.unreadable)
    return Plan(COMMAND, log_dir, stages, ends, unreadable)


def _load(log: PartitionLoading, guest: Guest, *, is_metadata: bool) -> None:
    mend_logs(log, guest)
    _read_epochs(log)
    known_epochs = log.epochs.entries
    drop_temporary_files(log)
    finish_swaps(log)
    load_segments(log)
    recover_from_the_recovery_point(log)
    end = _end(log)
    log.epochs.truncate_from_end(end)
    log.epochs.truncate_from_start(log.how.log_start)
    # Offsets moved to remote storage are not in the first segment here, but belong to the log.
    start = log.how.log_start if log.how.is_tiered else max(log.how.log_start, log.bases[0])
    finish_producers(log, start, end)
    topic_id = _topic_id(log)
    if is_metadata:
        if topic_id not in (None, METADATA_TOPIC_ID):
            raise BrokerThrows(f"{TOPIC_ID}: {topic_id} is not the id of the metadata log")
        end = sort_out_snapshots(log, end)
    _write_epochs(log, known_epochs)
    log.result.log_end = end


def _load_for_deletion(log: PartitionLoading) -> None:
    """Load a partition that the broker deletes soon after; nothing needs to be done to it here."""
    size = sum(log.dir.size(name) for name in log.dir)
    _read_epochs(log)
    drop_temporary_files(log)
    finish_swaps(log)
    load_segments(log)
    _topic_id(log)
    message = f"waits to be deleted: a broker does that after file.delete.delay.ms, {size} bytes go"
    log.result.events = [Event("delete", None, message)]


def _read_epochs(log: PartitionLoading) -> None:
    if LEADER_EPOCHS not in log.dir:
        return
    raw = log.read_or_fail(LEADER_EPOCHS)
    try:
        entries = read_leader_epochs(raw)
    except FormatError as error:
        # An invalid number is no I/O error to the broker, and stops it altogether.
        failure = BrokerThrows if is_only_a_number_wrong(raw, fields=2) else DirectoryFails
        raise failure(f"{LEADER_EPOCHS} cannot be read: {error}") from None
    for entry in entries:
        if entry.epoch < 0 or entry.start_offset < 0:
            raise BrokerThrows(f"{LEADER_EPOCHS} holds epoch {entry.epoch} at {entry.start_offset}")
        log.epochs.assign(entry.epoch, entry.start_offset)


def _topic_id(log: PartitionLoading) -> str | None:
    if TOPIC_ID not in log.dir:
        return None
    raw = log.read_or_fail(TOPIC_ID)
    try:
        return read_partition_metadata(raw).topic_id
    except FormatError as error:
        # An invalid id is no I/O error to the broker, and stops it altogether.
        failure = BrokerThrows if _has_some_id(raw) else DirectoryFails
        raise failure(f"{TOPIC_ID} cannot be read: {error}") from None


def _has_some_id(raw: bytes) -> bool:
    line = (*raw.decode("utf-8", "replace").splitlines(), "", "")[1]
    text = line.partition(": ")[2].strip()
    return bool(text) and parse_uuid(text) is None


def _write_epochs(log: PartitionLoading, known: list[EpochStart]) -> None:
    entries = log.epochs.entries
    if entries != known:
        log.dir.write(LEADER_EPOCHS, write_leader_epochs(entries), "as the log has them")
    elif LEADER_EPOCHS not in log.dir:
        log.dir.write(LEADER_EPOCHS, b"", "it was missing; the log has no epochs")


def _end(log: PartitionLoading) -> int:
    """Return the log end offset; if it is below the log start, an empty log takes its place."""
    start = log.how.log_start
    if not log.bases:
        make_empty_segment(log, start)
        return start
    last = log.bases[-1]
    if last in log.ends:
        end = log.ends[last]
    else:
        end = _end_by_index(log, last) if log.how.is_clean else _end_of_chain(log, last)
    if end >= start:
        return end
    why = f"the log ends at {end}, below its log start offset {start}: bring the missing segments back first"
    start_anew_at(log, start, why, "delete")
    return start


def _end_by_index(log: PartitionLoading, base: int) -> int:
    """Return the end as a broker finds it after a clean shutdown: from the last index entry on.

    If there is no batch the segment counts as empty; its bytes stay, and new ones are appended.
    """
    end = base
    with log.dir.open(segment_file(base, ".log")) as source:
        segment = SegmentLookup(log, base, source)
        start = segment.position_of(segment.last_indexed_offset())
        for batch in () if start is None else segment.batches(start):
            end = batch.header.last_offset + 1
    return end


def _end_of_chain(log: PartitionLoading, base: int) -> int:
    """Return the end of a segment that was not scanned, as the recovery point is above any offset."""
    batches = log.batches(segment_file(base, ".log"))
    return batches[-1].header.last_offset + 1 if batches else base
