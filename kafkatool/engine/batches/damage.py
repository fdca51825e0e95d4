"""Damage as data: where it is, what was expected, what was found, which offsets are affected."""

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
    # Not damage: what holds back the last stable offset.
    OPEN_TRANSACTION = "open_transaction"
    # Findings about the host, not about the files.
    NO_PERMISSION = "no_permission"
    HOST_LIMIT = "host_limit"
    NO_SPACE = "no_space"
    BAD_MOUNT = "bad_mount"


class Severity(IntEnum):
    """Ordered: `--fail-on` names the lowest one that makes a command exit with 4."""

    NOTE = 0
    DEGRADED = 1
    NO_START = 2
    LOSS = 3

    @property
    def label(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Damage:
    """A damaged range of one file: [position, end_position)."""

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
    # Whether Kafka's own reader stops here, and whether it does so by throwing.
    ends_chain: bool = False
    throws: bool = False
    is_mendable: bool = False
    """Whether it is proven to be one flipped bit, so that flipping it back repairs the batch."""


@dataclass(frozen=True, slots=True)
class SeverityMet:
    """Reports the worst severity that a run has met."""

    severity: Severity
