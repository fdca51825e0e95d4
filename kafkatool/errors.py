"""What can go wrong, each with the exit code it leads to."""

from __future__ import annotations

from enum import IntEnum

_MOST_FOUND = 200


class ExitCode(IntEnum):
    """What the shell sees. 1 is left to crashes and never chosen on purpose."""

    OK = 0
    USAGE = 2
    FAILED = 3
    FOUND = 4
    REFUSED = 5
    INTERRUPTED = 130
    PIPE_CLOSED = 141


class KafkatoolError(Exception):
    """An error that a person can act on; the text is all they see."""

    exit_code = ExitCode.FAILED


class UsageError(KafkatoolError):
    """The command line asks for something that makes no sense, or matches nothing."""

    exit_code = ExitCode.USAGE


class Refused(KafkatoolError):
    """It could be done, and is not, because data might be lost."""

    exit_code = ExitCode.REFUSED


class FormatError(KafkatoolError):
    """These bytes are not what their place says they are."""

    def __init__(self, what: str, at: int, *, expected: object, found: object) -> None:
        found = _shortened(found)
        super().__init__(f"{what} at byte {at}: expected {expected}, found {found}")
        self.what = what
        self.at = at
        self.expected = expected
        self.found = found


def _shortened(found: object) -> object:
    """A megabyte of garbage tells no more than its beginning."""
    if isinstance(found, str) and len(found) > _MOST_FOUND:
        return f"{found[:_MOST_FOUND]}… ({len(found)} characters)"
    return found


class Truncated(FormatError):
    """The bytes end before the structure does."""


class TooLarge(FormatError):
    """A limit was reached before the structure ended; nothing beyond it was allocated."""
