"""Why a log does not take a batch or give an answer, by the names of Kafka's error codes."""

from __future__ import annotations

from kafkatool.errors import KafkatoolError


class LogRefusal(KafkatoolError):
    """The log is as it was before; the text says why."""


class CorruptMessage(LogRefusal):
    """The bytes do not match their checksum, or are no batch."""


class MessageTooLarge(LogRefusal):
    """A batch is above `max.message.bytes`."""


class RecordListTooLarge(LogRefusal):
    """The batches of one append are together above `segment.bytes`."""


class InvalidRecord(LogRefusal):
    """A record, or the batch around it, breaks a rule."""


class InvalidTimestamp(LogRefusal):
    """A record is too old or too far in the future for its topic."""


class UnexpectedOffset(LogRefusal):
    """A follower's batch begins below the end of the log."""


class OffsetsOutOfOrder(LogRefusal):
    """The offsets of a follower's batches do not rise."""


class OutOfOrderSequence(LogRefusal):
    """A producer's sequence numbers do not go on where they ended."""


class InvalidProducerEpoch(LogRefusal):
    """A producer that was replaced by a newer one still writes."""


class CoordinatorFenced(LogRefusal):
    """A transaction coordinator that was replaced still writes."""


class InvalidTxnState(LogRefusal):
    """A producer writes outside its transaction while that is open."""


class OffsetOutOfRange(LogRefusal):
    """An offset below the start or above the end of the log."""
