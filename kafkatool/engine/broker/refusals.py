"""The errors of a log that refuses a batch or a read, named after Kafka's error codes."""

from __future__ import annotations

from kafkatool.errors import KafkatoolError


class LogRefusal(KafkatoolError):
    """The log is unchanged; the text says why it refused."""


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
    """A follower's batch begins below the log end offset."""


class OffsetsOutOfOrder(LogRefusal):
    """The offsets of a follower's batches do not rise."""


class OutOfOrderSequence(LogRefusal):
    """A producer's sequence numbers do not continue from the last."""


class InvalidProducerEpoch(LogRefusal):
    """A producer replaced by a newer instance still writes."""


class CoordinatorFenced(LogRefusal):
    """A replaced transaction coordinator still writes."""


class InvalidTxnState(LogRefusal):
    """A producer writes outside its transaction while that is open."""


class OffsetOutOfRange(LogRefusal):
    """An offset below the start or above the end of the log."""
