"""The input and the result of a recovery, shared by all its steps."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkatool.engine.batches.damage import Damage
from kafkatool.engine.batches.mending import BatchMend
from kafkatool.engine.batches.scan import Batch, scan
from kafkatool.engine.broker.leader_epochs import LeaderEpochs
from kafkatool.engine.files.source import ByteRange, Source
from kafkatool.engine.plan.steps import FileStretch, Step
from kafkatool.engine.plan.virtual import UnreadableFile, VirtualDirectory
from kafkatool.format.java_text import parse_long
from kafkatool.format.names import segment_file
from kafkatool.format.release import NEWEST, Release

INDEXES = (".index", ".timeindex", ".txnindex")


@dataclass(frozen=True, slots=True)
class StartFacts:
    """What is known about a partition from outside its directory."""

    now_ms: int
    recovery_point: int = 0
    log_start: int = 0
    interval: int = 4096
    max_index_bytes: int = 10 << 20
    is_tiered: bool = False
    """Whether remote.storage.enable is set: the log may start below its first local segment."""
    is_clean: bool = False
    """Whether a clean shutdown marker is trusted: no segment is scanned, the index leads to the end."""
    is_beside_metadata: bool = False
    """Whether the metadata log is in the same log directory: a node does not run without that."""
    release: Release = NEWEST


@dataclass(frozen=True, slots=True)
class Event:
    """One action of the broker. Positions and offsets are None where they do not apply."""

    what: str
    segment: int | None
    message: str
    position: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None


@dataclass(slots=True)
class Recovered:
    """What would happen to a partition."""

    path: str
    events: list[Event] = field(default_factory=list)
    refusal: str | None = None
    """Why the broker fails on this partition; then nothing is planned for it."""
    is_offline: bool = False
    """Whether it then goes on without the log directory, instead of not starting at all."""
    stages: list[tuple[Step, ...]] = field(default_factory=list)
    log_end: int | None = None
    log_start: int = 0
    lost_to: int | None = None
    """The last offset in a good batch after the damage; None if there is none."""
    first_damage: Damage | None = None
    """The damage where the log is cut; None if nothing is wrong with the cut part."""
    is_lost_end_open: bool = False
    """Whether more may be lost than that: the cut part does not end with a good batch."""
    cuts: list[tuple[str, int]] = field(default_factory=list)
    """Logs as they are now, with the byte where they are cut; 0 if they are removed."""
    open_transactions: dict[int, int] = field(default_factory=dict)
    """First offset to producer id, where the log is cut."""
    mends: list[BatchMend] = field(default_factory=list)
    """Flipped bits found when mending was asked for, including those left alone."""
    unreadable: frozenset[str] = frozenset()
    """Files that the disk did not return completely."""

    @property
    def is_misnamed(self) -> bool:
        """Whether a log has a name under which no broker opens it; then nothing is planned."""
        return any(event.what == "misnamed" for event in self.events)

    @property
    def is_beyond_repair(self) -> bool:
        """Whether something is still wrong after all that a broker would do."""
        return self.refusal is not None or any(one.what in ("unreadable", "misnamed") for one in self.events)

    @property
    def loses(self) -> bool:
        """Whether records are removed, or become unreadable. (A partition to be deleted names no segment.)"""
        return any(
            event.what in ("cut", "unreadable", "misnamed")
            or (event.what == "delete" and event.segment is not None)
            for event in self.events
        )


class BrokerThrows(Exception):
    """The loader fails on this, and so does the broker."""


class DirectoryFails(BrokerThrows):
    """The loader takes this for a failing disk: the log directory goes offline."""


def offset_in_name(name: str) -> int | None:
    """Return the number before the first dot, if it is one."""
    return parse_long(name.partition(".")[0]) if "." in name else None


class PartitionLoading:
    """A partition being loaded by the simulated broker."""

    def __init__(self, directory: VirtualDirectory, how: StartFacts) -> None:
        self.dir = directory
        self.how = how
        self.result = Recovered(directory.path, log_start=how.log_start)
        self.epochs = LeaderEpochs()
        self.bases: list[int] = []
        self.ends: dict[int, int] = {}
        """End offsets of scanned segments, by base offset."""

    def say(self, what: str, segment: int | None, message: str, **more: int | None) -> None:
        self.result.events.append(Event(what, segment, message, **more))

    def drop_leftover(self, name: str, why: str) -> None:
        self.say("leftover", offset_in_name(name), f"{name}: {why}")
        self.dir.remove(name, why)

    def remember_cut(self, log: str, position: int) -> None:
        """Record what a cut removes from a log, so that it can be salvaged."""
        content = self.dir.files[log]
        if isinstance(content, FileStretch) and content.end > content.start + position:
            cuts = dict(self.result.cuts)  # a log may be cut again, at an earlier byte
            cuts[content.path] = content.start + position
            self.result.cuts = list(cuts.items())

    def remove_segment(self, base: int, why: str) -> None:
        log = segment_file(base, ".log")
        if log in self.dir:
            self.remember_cut(log, 0)
        for extension in (".log", *INDEXES, ".snapshot"):
            self.dir.remove(segment_file(base, extension), why)

    def read_or_fail(self, name: str) -> bytes:
        """Return a side file; if the disk cannot read it, a broker loses the log directory."""
        try:
            return self.dir.read(name)
        except UnreadableFile as error:
            raise DirectoryFails(str(error)) from None

    def batches(self, name: str) -> list[Batch]:
        """Return the chain of batches of a log, unchecked and without records."""
        found = []
        with self.dir.open(name) as source:
            for item in scan(source, chain=True):
                if isinstance(item, Batch):
                    found.append(item._replace(data=None))
                elif item.ends_chain:
                    break
        return found


def unreadable_in(source: Source, start: int, end: int) -> ByteRange | None:
    """Return the first unreadable range in a stretch, among what was read so far."""
    return next((found for found in source.unreadable if found[0] < end and start < found[1]), None)
