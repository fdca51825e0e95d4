"""What is wrong, as data: where, what was expected, what was found, which offsets are at stake."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class FindingClass(StrEnum):
    BAD_CRC = "bad_crc"
    BAD_LENGTH = "bad_length"
    BAD_MAGIC = "bad_magic"
    BAD_OFFSET = "bad_offset"
    BAD_RECORD = "bad_record"
    TORN_TAIL = "torn_tail"
    ZERO_FILLED = "zero_filled"
    BIT_FLIP = "bit_flip"
    UNREADABLE = "unreadable"
    TOO_LARGE = "too_large"
    IN_FLIGHT = "in_flight"
    STALE_INDEX = "stale_index"
    BAD_INDEX = "bad_index"
    MISSING_FILE = "missing_file"
    BAD_CHECKPOINT = "bad_checkpoint"
    BAD_SNAPSHOT = "bad_snapshot"
    BAD_METADATA = "bad_metadata"
    OVERLAP = "overlap"
    GAP = "gap"
    # Not damage: what holds the last stable offset.
    OPEN_TRANSACTION = "open_transaction"
    # Not of the files themselves, but of the host that they are on.
    NO_PERMISSION = "no_permission"
    HOST_LIMIT = "host_limit"
    NO_SPACE = "no_space"
    BAD_MOUNT = "bad_mount"


class Severity(IntEnum):
    """Ordered: `--fail-on` names the least one that makes a command exit with 4."""

    NOTE = 0
    DEGRADED = 1
    NO_START = 2
    LOSS = 3

    @property
    def label(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Damage:
    """A stretch of one file that is not what it should be: [position, end_position)."""

    kind: FindingClass
    position: int
    end_position: int
    expected: str
    found: str
    message: str
    severity: Severity = Severity.LOSS
    first_offset: int | None = None
    last_offset: int | None = None
    next_good_offset: int | None = None
    # Where Kafka's own reader ends its walk here, and whether it does so by throwing.
    ends_chain: bool = False
    throws: bool = False
    is_mendable: bool = False
    """Whether it is one flipped bit, proven, so that flipping it back makes the batch whole."""


@dataclass(frozen=True, slots=True)
class SeverityMet:
    """Report to whoever started a run how bad the worst thing is that it met."""

    severity: Severity
