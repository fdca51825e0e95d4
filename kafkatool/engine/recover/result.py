"""What a recovery knows before it begins, and what it comes to: shared by all its steps."""

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
    """What is known of a partition from outside its directory."""

    now_ms: int
    recovery_point: int = 0
    log_start: int = 0
    interval: int = 4096
    max_index_bytes: int = 10 << 20
    is_tiered: bool = False
    """Whether remote.storage.enable is set: the log may start below its first segment here."""
    is_clean: bool = False
    """Whether a mark of a clean shutdown is believed: no segment is scanned, the index leads to the end."""
    is_beside_metadata: bool = False
    """Whether the metadata log is in the same log directory: a node does not go on without that."""
    release: Release = NEWEST


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that the broker would do. Positions and offsets are None where they mean nothing."""

    what: str
    segment: int | None
    message: str
    position: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None


@dataclass(slots=True)
class Recovered:
    """What would become of a partition."""

    path: str
    events: list[Event] = field(default_factory=list)
    refusal: str | None = None
    """Why the broker does not come to the end of this partition; then nothing is planned for it."""
    is_offline: bool = False
    """Whether it then goes on without the log directory, instead of not starting at all."""
    stages: list[tuple[Step, ...]] = field(default_factory=list)
    log_end: int | None = None
    log_start: int = 0
    lost_to: int | None = None
    """The last offset that a good batch behind the damage holds; None where there is none."""
    first_damage: Damage | None = None
    """What begins where the log is cut; None where nothing is wrong with what goes."""
    is_lost_end_open: bool = False
    """Whether more may be lost than that: what is cut does not end with a good batch."""
    cuts: list[tuple[str, int]] = field(default_factory=list)
    """Logs as they are now, and the byte from which on they are cut; 0 where all goes."""
    open_transactions: dict[int, int] = field(default_factory=dict)
    """First offset to producer id, where the log is cut."""
    mends: list[BatchMend] = field(default_factory=list)
    """Flipped bits that were found because they were looked for, those that are left as they are, too."""
    unreadable: frozenset[str] = frozenset()
    """Files of which the disk did not give everything."""

    @property
    def is_misnamed(self) -> bool:
        """Whether a log lies under a name by which no broker opens it; then nothing is planned."""
        return any(event.what == "misnamed" for event in self.events)

    @property
    def is_beyond_repair(self) -> bool:
        """Whether something stays wrong when everything was done that a broker would do."""
        return self.refusal is not None or any(one.what in ("unreadable", "misnamed") for one in self.events)

    @property
    def loses(self) -> bool:
        """Whether records go, or can be read no more. (What waits to be deleted names no segment.)"""
        return any(
            event.what in ("cut", "unreadable", "misnamed")
            or (event.what == "delete" and event.segment is not None)
            for event in self.events
        )


class BrokerThrows(Exception):
    """The loader does not survive this, and neither does the broker."""


class DirectoryFails(BrokerThrows):
    """The loader takes this for a failing disk: the log directory goes offline."""


def offset_in_name(name: str) -> int | None:
    """What stands before the first dot, if that is a number."""
    return parse_long(name.partition(".")[0]) if "." in name else None


class PartitionLoading:
    """A partition on its way through the broker's loader."""

    def __init__(self, directory: VirtualDirectory, how: StartFacts) -> None:
        self.dir = directory
        self.how = how
        self.result = Recovered(directory.path, log_start=how.log_start)
        self.epochs = LeaderEpochs()
        self.bases: list[int] = []
        self.ends: dict[int, int] = {}
        """By base offset: where the segments that were scanned end."""

    def say(self, what: str, segment: int | None, message: str, **more: int | None) -> None:
        self.result.events.append(Event(what, segment, message, **more))

    def drop_leftover(self, name: str, why: str) -> None:
        self.say("leftover", offset_in_name(name), f"{name}: {why}")
        self.dir.remove(name, why)

    def remember_cut(self, log: str, position: int) -> None:
        """Note what a cut takes of a log, so that it can be saved."""
        content = self.dir.files[log]
        if isinstance(content, FileStretch) and content.end > content.start + position:
            cuts = dict(self.result.cuts)  # what was cut before may be cut once more, further ahead
            cuts[content.path] = content.start + position
            self.result.cuts = list(cuts.items())

    def remove_segment(self, base: int, why: str) -> None:
        log = segment_file(base, ".log")
        if log in self.dir:
            self.remember_cut(log, 0)
        for extension in (".log", *INDEXES, ".snapshot"):
            self.dir.remove(segment_file(base, extension), why)

    def read_or_fail(self, name: str) -> bytes:
        """A side file; what the disk does not give costs the broker the log directory."""
        try:
            return self.dir.read(name)
        except UnreadableFile as error:
            raise DirectoryFails(str(error)) from None

    def batches(self, name: str) -> list[Batch]:
        """The chain of a log, unchecked, as far as it goes; without the records."""
        found = []
        with self.dir.open(name) as source:
            for item in scan(source, chain=True):
                if isinstance(item, Batch):
                    found.append(item._replace(data=None))
                elif item.ends_chain:
                    break
        return found


def unreadable_in(source: Source, start: int, end: int) -> ByteRange | None:
    """The first bytes of a stretch that the disk did not give, of what was asked for so far."""
    return next((found for found in source.unreadable if found[0] < end and start < found[1]), None)
