"""Power cuts: at every operation, torn, with all, some or none of what was not synced.

Whatever the disk kept, the log that is opened again holds a beginning of what was appended, all that was
flushed is in it, and its indexes, epochs and producer state are those of exactly these batches. Where rolled
segments are flushed beside the appends, there may be a hole above the recovery point, as in a broker's log.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from kafkatool.engine.broker.index_accounting import IndexAccounting
from kafkatool.engine.broker.producer_state import ProducerStates, state_batch
from kafkatool.engine.cluster.topic_config import TopicConfig, read_config
from kafkatool.engine.files.disk import Disk, Files
from kafkatool.engine.log import (
    leftovers,
    loading,
    partition_log,
    producer_rebuild,
    segment,
    segment_split,
    snapshots,
)
from kafkatool.engine.log.flusher import Flusher
from kafkatool.engine.log.loading import LeftLog, open_log
from kafkatool.engine.log.partition_log import Log
from kafkatool.engine.log.reading import read
from kafkatool.engine.log.segment import EXTENSIONS, LOG
from kafkatool.engine.log.validation import split_batches
from kafkatool.errors import KafkatoolError
from kafkatool.format.batch import CONTROL_MASK, TRANSACTIONAL_MASK, NewRecord, read_header
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.names import segment_file
from kafkatool.format.release import Release
from kafkatool.format.schema.control import write_end_marker
from kafkatool.format.state.checkpoint import EpochStart, write_leader_epochs
from kafkatool.format.state.producer_snapshot import ProducerState, write_snapshot
from kafkatool.format.txn_index import AbortedTxn
from tests.engine.crash_disk import CrashDisk, PowerCut, every_way
from tests.memory import MEMORY
from tests.mutations import flipped

NOW = 1_700_000_000_000
SETTINGS = {"segment.bytes": "420", "index.interval.bytes": "100"}
CONFIG = read_config(SETTINGS, Release.V3_9)
PREALLOCATING = read_config({**SETTINGS, "preallocate": "true"}, Release.V3_9)
FAR = 1 << 31


# --- batches ------------------------------------------------------------------------------------------


def data_batch(offset: int, epoch: int = 0, *, sequence: int = 0, transactional: bool = True) -> bytes:
    return write_batch(
        [NewRecord(b"k%d" % at, b"value %d" % (offset + at), NOW + offset) for at in range(2)],
        base_offset=offset,
        partition_leader_epoch=epoch,
        producer_id=offset % 3,
        producer_epoch=0,
        base_sequence=sequence,
        attributes=TRANSACTIONAL_MASK if transactional else 0,
    )


def marker(offset: int, producer_id: int, *, committed: bool, epoch: int = 0) -> bytes:
    key, value = write_end_marker(committed, 1)
    return write_batch(
        [NewRecord(key, value, NOW + offset)],
        base_offset=offset,
        partition_leader_epoch=epoch,
        producer_id=producer_id,
        producer_epoch=0,
        attributes=TRANSACTIONAL_MASK | CONTROL_MASK,
    )


def batches_from(offset: int, rounds: int, epoch: int = 0) -> Iterator[bytes]:
    """Transactions of three producers, every other one aborted."""
    for number in range(rounds):
        yield data_batch(offset, epoch)
        yield marker(offset + 2, offset % 3, committed=bool(number % 2), epoch=epoch)
        offset += 3


# --- a log whose history is known -----------------------------------------------------------------------


@dataclass
class Story:
    """What was done so far; `cut_at` while a truncation to that offset may or may not have happened."""

    files: Files
    directory: str
    left: LeftLog = field(default_factory=LeftLog)
    batches: list[bytes] = field(default_factory=list)
    log: Log | None = None
    is_closed: bool = False
    cut_at: int | None = None
    config: TopicConfig = CONFIG
    # Whether every segment was written, or recovered, from its start to its end at once.
    has_plain_indexes: bool = False
    flusher: Flusher = field(default_factory=Flusher)

    def open(self) -> Log:
        how = {"left": self.left, "flusher": self.flusher}
        self.log = open_log(self.files, self.directory, self.config, now_ms=NOW, **how)  # type: ignore[arg-type]
        return self.log

    def append(self, batch: bytes) -> None:
        assert self.log is not None
        self.batches.append(batch)
        self.log.append_as_follower(batch, now_ms=NOW)

    def truncate(self, offset: int) -> None:
        assert self.log is not None
        self.cut_at = offset
        self.log.truncate_to(offset, NOW)
        self.batches = [batch for batch in self.batches if read_header(batch).last_offset < offset]
        self.cut_at = None

    @property
    def recovery_point(self) -> int:
        return self.left.recovery_point if self.log is None else self.log.recovery_point

    def promised(self) -> list[bytes]:
        """The batches that must be there."""
        end = self.recovery_point if self.cut_at is None else min(self.cut_at, self.recovery_point)
        return [batch for batch in self.batches if read_header(batch).last_offset < end]


Scenario = Callable[[Story], None]


class FlushesLater(Flusher):
    """Beside the appends, and as late as a thread ever may: not before somebody waits for it."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] = []

    def run(self, flush: Callable[[], None]) -> None:
        self.settle()
        self._waiting.append(flush)

    def settle(self) -> None:
        while self._waiting:
            self._waiting.pop()()


def check(story: Story, directory: Path, opening: LeftLog, way: str) -> None:
    if not directory.exists():
        assert story.promised() == [], f"{way}: the directory is lost"
        assert story.log is None, f"{way}: the directory is lost"
        return
    opened = open_log(Disk(), str(directory), story.config, now_ms=NOW, left=opening)
    try:
        found = [bytes(batch.data) for part in opened.segments for batch in split_batches(whole(part))]
        promised = story.promised()
        assert found[: len(promised)] == promised, f"{way}: something flushed is lost"
        if isinstance(story.flusher, FlushesLater) and has_hole(found, story.batches):
            return
        assert found == story.batches[: len(found)], f"{way}: something was invented"
        if story.is_closed:
            assert found == story.batches, f"{way}: something closed is lost"
        check_against(opened, found, way)
        assert not list(directory.glob("*index.tmp")), f"{way}: half an index is left"
        if story.has_plain_indexes:
            check_indexes(opened, way)
        opened.append_as_follower(data_batch(opened.log_end_offset + 3, 9), now_ms=NOW)
    except KafkatoolError as error:
        raise AssertionError(f"{way}: {error}") from error
    finally:
        opened.abandon()


def has_hole(found: list[bytes], batches: list[bytes]) -> bool:
    """Whether some are missing, and none is new or in another place."""
    rest = iter(batches)
    return found != batches[: len(found)] and all(batch in rest for batch in found)


def whole(part: segment.WritableSegment) -> bytes:
    assert part.size == os.path.getsize(part.path(LOG)) or part.size == 0
    return part.read(0, part.size)


def check_against(opened: Log, batches: list[bytes], way: str) -> None:
    """Every side file must tell the same story as the batches."""
    states, aborted = ProducerStates(), list[AbortedTxn]()
    for batch in batches:
        header = read_header(batch)
        aborted += states.replay(state_batch(header, batch))
        assert read(opened, header.last_offset, max_bytes=1).data == batch, f"{way}: a lookup fails"
        assert opened.epochs.epoch_at(header.base_offset) == header.partition_leader_epoch, f"{way}: epochs"
    assert opened.producers.rows() == states.rows(), f"{way}: producer state"
    assert opened.producers.open_transactions == states.open_transactions, f"{way}: open transactions"
    assert [txn for part in opened.segments for txn in part.aborted()] == aborted, f"{way}: aborted"


def check_indexes(opened: Log, way: str) -> None:
    """Every entry that is due is there: a lookup without it would find the same, but not as fast."""
    for part in opened.segments:
        accounting = IndexAccounting(part.base_offset, CONFIG.index_interval_bytes, CONFIG.max_index_bytes)
        offsets, times = [], []
        for position, size, header in part.batches_from(0):
            new = accounting.add(position, size, header.last_offset, header.max_timestamp)
            offsets += [] if new.offset is None else [new.offset]
            times += [] if new.time is None else [new.time]
        closing = accounting.close()
        times += [] if closing is None else [closing]
        assert part.offset_entries() == offsets, f"{way}: index of {part.base_offset}"
        assert part.time_entries() == times, f"{way}: time index of {part.base_offset}"


# --- what is done -----------------------------------------------------------------------------------------


def life(story: Story) -> None:
    """A new partition: segments roll, transactions abort, a leader changes, the log is cut and goes on."""
    opened = story.open()
    for batch in batches_from(0, 3):
        story.append(batch)
    opened.flush(NOW)
    for batch in batches_from(9, 4, epoch=2):
        story.append(batch)
    story.truncate(6)
    for batch in batches_from(6, 2, epoch=3):
        story.append(batch)
    opened.flush(NOW)
    opened.close()
    story.is_closed = True


def plain_life(story: Story) -> None:
    """Nothing but appends and flushes."""
    opened = story.open()
    story.has_plain_indexes = True
    for batch in batches_from(0, 4):
        story.append(batch)
    opened.flush(NOW)
    for batch in batches_from(12, 3):
        story.append(batch)
    opened.close()
    story.is_closed = True


def life_flushed_later(story: Story) -> None:
    """As `life`, and a rolled segment is flushed when the next one is full, as by a busy thread."""
    story.flusher = FlushesLater()
    life(story)


def without_producers(story: Story) -> None:
    """Batches as plain as most are, which go a short way of their own."""
    opened = story.open()
    story.has_plain_indexes = True
    for number in range(14):
        rows = [NewRecord(b"k", b"value %d" % number, NOW + number)]
        story.append(write_batch(rows, base_offset=number, partition_leader_epoch=0))
        if number == 5:
            opened.flush(NOW)
    opened.close()
    story.is_closed = True


def preallocated(story: Story) -> None:
    """As `life`, and every log begins with zeros to its end."""
    story.config = PREALLOCATING
    life(story)


def too_many_offsets(story: Story) -> None:
    """A segment that lost its index has to be split; every record of it was flushed."""
    directory = Path(story.directory)
    directory.mkdir()
    starts = (0, 2, 4, FAR + 5, FAR + 7, 3 * FAR)
    story.batches = [data_batch(offset, transactional=False) for offset in starts]
    (directory / segment_file(0, ".log")).write_bytes(b"".join(story.batches))
    (directory / partition_log.LEADER_EPOCHS).write_bytes(write_leader_epochs([EpochStart(0, 0)]))
    restart_disk(story)
    story.left = LeftLog(3 * FAR + 2)
    story.open()


def undone_swap(story: Story) -> None:
    """A cleaner had not renamed all that it had written; what it wrote must not take anybody's place."""
    directory = Path(story.directory)
    story.batches = prepare(directory)
    first, second, third = sorted(directory.glob("*.log"))[:3]
    first.with_suffix(".timeindex.cleaned").write_bytes(b"")
    for path in (second, third):
        for extension in (".log", ".index", ".timeindex"):
            path.with_suffix(f"{extension}.swap").write_bytes(b"")
    first.with_suffix(".txnindex.deleted").write_bytes(b"")
    restart_disk(story)
    story.left = LeftLog(read_header(story.batches[-1]).last_offset + 1)
    story.open()


def finished_swap(story: Story) -> None:
    """A cleaner had made one segment of two, and written the next anew; none is yet in its place."""
    directory = Path(story.directory)
    story.batches = prepare(directory)
    first, second, third, fourth = sorted(directory.glob("*.log"))[:4]
    first.with_suffix(".log.swap").write_bytes(first.read_bytes() + second.read_bytes())
    for path in (third, fourth):
        path.with_suffix(".log.swap").write_bytes(path.read_bytes())
    restart_disk(story)
    story.left = LeftLog(read_header(story.batches[-1]).last_offset + 1)
    story.open()


def prepare(directory: Path) -> list[bytes]:
    """A log of several segments, written without any accident."""
    story = Story(Disk(), str(directory))
    story.open()
    for batch in batches_from(0, 8):
        story.append(batch)
    assert story.log is not None
    story.log.close()
    return story.batches


def damaged_in_the_middle(story: Story) -> None:
    """Recovery cuts a segment and removes the ones behind it; then life goes on."""
    directory = Path(story.directory)
    batches = prepare(directory)
    path = sorted(directory.glob("*.log"))[1]
    content = flipped(path.read_bytes(), -1)
    path.write_bytes(content)
    end = int(path.stem)
    kept = [raw for raw in batches if read_header(raw).last_offset < end]
    inside = list(split_batches(content))[:-1]
    story.batches = kept + [bytes(batch.data) for batch in inside]
    restart_disk(story)
    story.left = LeftLog(0)
    opened = story.open()
    for batch in batches_from(opened.log_end_offset, 2, epoch=1):
        story.append(batch)
    opened.flush(NOW)


def damaged_below_the_recovery_point(story: Story) -> None:
    """A segment that is believed lost its index, and has garbage at its end: both are mended for good."""
    directory = Path(story.directory)
    story.batches = prepare(directory)
    first = sorted(directory.glob("*.log"))[0]
    first.write_bytes(first.read_bytes() + b"garbage behind the last batch of the segment")
    first.with_suffix(".index").unlink()
    restart_disk(story)
    end = read_header(story.batches[-1]).last_offset + 1
    story.left = LeftLog(end)
    story.open()


def stale_snapshot(story: Story) -> None:
    """A snapshot of a longer log that was lost must not be taken for one of what is written now."""
    directory = Path(story.directory)
    story.batches = prepare(directory)
    end = read_header(story.batches[-1]).last_offset + 1
    stale = write_snapshot([ProducerState(77, 0, 5, end, 0, NOW, 0, -1)])
    (directory / f"{end + 3:020d}.snapshot").write_bytes(stale)
    restart_disk(story)
    story.left = LeftLog(end)
    opened = story.open()
    for batch in batches_from(end, 1):
        story.append(batch)
    opened.flush(NOW)


def any_life(seed: int) -> Scenario:
    """Anything that can be done to a log, in an order of its own."""

    def scenario(story: Story) -> None:
        chance = random.Random(seed)
        if seed % 2:
            story.config = PREALLOCATING
        if seed % 3 == 1:
            story.flusher = FlushesLater()
        opened = story.open()
        epoch = 0
        for _ in range(chance.randint(4, 14)):
            step = chance.choice(
                ["append", "append", "append", "flush", "roll", "truncate", "lead", "reopen"]
            )
            if step == "append":
                for batch in batches_from(opened.log_end_offset, chance.randint(1, 4), epoch):
                    story.append(batch)
            elif step == "flush":
                opened.flush(NOW)
            elif step == "roll":
                opened.roll(NOW)
            elif step == "truncate":
                # Between transactions: what goes on behind an open one of another producer is no story here.
                story.truncate(chance.randint(0, opened.log_end_offset // 3) * 3)
            elif step == "lead":
                epoch += 1
                opened.become_leader(epoch)
            else:
                opened.close()
                story.left = LeftLog(opened.recovery_point, is_clean=True)
                opened = story.open()

    scenario.__name__ = f"life {seed}"
    return scenario


SCENARIOS: list[Scenario] = [
    plain_life,
    life,
    life_flushed_later,
    without_producers,
    preallocated,
    damaged_in_the_middle,
    damaged_below_the_recovery_point,
    stale_snapshot,
    too_many_offsets,
    undone_swap,
    finished_swap,
]


def restart_disk(story: Story) -> None:
    """What was prepared is on the disk; only what follows can be lost."""
    disk = story.files
    assert isinstance(disk, CrashDisk)
    story.files = CrashDisk(disk.root, stop_at=disk.stop_at, without=disk.without)


# --- the cuts ---------------------------------------------------------------------------------------------


def run(root: Path, scenario: Scenario, number: int, without: str | None) -> Story:
    (root / "disk").mkdir()
    story = Story(CrashDisk(root / "disk", stop_at=number, without=without), str(root / "disk" / "t-0"))
    try:
        scenario(story)
    except PowerCut:
        pass
    finally:
        assert isinstance(story.files, CrashDisk)
        story.files.close()
    return story


def cut_everywhere(scenario: Scenario, without: str | None = None) -> set[str]:
    """Lose power at every operation in every way; the places that synced. Raise AssertionError on a loss."""
    sites: set[str] = set()
    for number in range(10_000):
        root = Path(tempfile.mkdtemp(prefix="kafkatool-crash-", dir=MEMORY))
        try:
            story = run(root, scenario, number, without)
            disk = story.files
            assert isinstance(disk, CrashDisk)
            sites |= disk.sync_sites
            for way, keep, tear in every_way(number):
                left = disk.survivors(root / way, keep=keep, tear=tear)
                where = f"{scenario.__name__}, operation {number} {disk.operations[-1]}, {way}"
                if story.left.recovery_point == 0 or story.left.is_clean:
                    shutil.copytree(left, root / f"{way} again")
                    check(story, root / f"{way} again" / "t-0", LeftLog(0), where)
                check(story, left / "t-0", LeftLog(story.recovery_point, is_clean=story.is_closed), where)
        finally:
            shutil.rmtree(root)
        if not disk.is_cut:
            return sites
    raise AssertionError("the scenario does not end")


@pytest.mark.long
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_was_flushed_is_there_and_nothing_is_invented(scenario: Scenario) -> None:
    cut_everywhere(scenario)


@pytest.mark.parametrize("seed", range(1, 3))
def test_any_life_survives_power_cuts(seed: int) -> None:
    cut_everywhere(any_life(seed))


@pytest.mark.soak
@pytest.mark.parametrize("seed", [0, *range(3, 200)])
def test_very_many_lives_survive_power_cuts(seed: int) -> None:
    cut_everywhere(any_life(seed))


def sync_calls() -> set[str]:
    """Every line of the log that syncs something; those of disk.py are proven in test_disk.py."""
    found = set()
    for module in (partition_log, loading, segment, snapshots, producer_rebuild, leftovers, segment_split):
        path = Path(str(module.__file__))
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if "(extension).sync()" in line:
                found |= {f"{path.name}:{number} .{extension}" for extension in EXTENSIONS}
            elif re.search(r"\.sync\(\)|\.sync_directory\(", line):
                found.add(f"{path.name}:{number}")
    return found


@pytest.mark.long
@pytest.mark.parametrize("site", sorted(sync_calls()))
def test_every_sync_is_needed(site: str) -> None:
    with pytest.raises(AssertionError, match="operation"):
        cut_all(site)


def cut_all(site: str) -> None:
    for scenario in SCENARIOS:
        if site.partition(" ")[0] in sites_of(scenario):
            cut_everywhere(scenario, site)


@cache
def sites_of(scenario: Scenario) -> set[str]:
    """Where a scenario syncs, if nothing happens to it."""
    root = Path(tempfile.mkdtemp(prefix="kafkatool-crash-", dir=MEMORY))
    try:
        disk = run(root, scenario, -1, None).files
    finally:
        shutil.rmtree(root)
    assert isinstance(disk, CrashDisk)
    return disk.sync_sites
