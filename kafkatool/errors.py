"""The errors of the program, each with its exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from enum import IntEnum

_MOST_FOUND = 200


class ExitCode(IntEnum):
    """The exit codes. 1 is left to crashes and never used on purpose."""

    OK = 0
    USAGE = 2
    FAILED = 3
    FOUND = 4
    REFUSED = 5
    INTERRUPTED = 130
    PIPE_CLOSED = 141


class KafkatoolError(Exception):
    """An error that the user can act on; the text is all they see."""

    exit_code = ExitCode.FAILED


class UsageError(KafkatoolError):
    """The command line makes no sense, or matches nothing."""

    exit_code = ExitCode.USAGE


def nearest(typed: str, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(typed, list(known), n=1)), None)


def unknown_word(where: str, typed: str, known: Iterable[str]) -> UsageError:
    """Return the error for a word that is not one of a few known ones."""
    words = list(known)
    near = nearest(typed, words)
    hint = "" if near is None else f"; did you mean {near!r}?"
    return UsageError(f"{where} {typed!r} is not one of {', '.join(words)}{hint}")


class Refused(KafkatoolError):
    """It could be done, but is not, because data might be lost."""

    exit_code = ExitCode.REFUSED


EXTRAS = {"pyarrow": "arrow", "pyspark": "spark"}
"""Packages that are installed only with an extra."""


class MissingExtra(KafkatoolError):
    """The request needs a package that is installed only with an extra."""

    def __init__(self, need: str, package: str, instead: str = "") -> None:
        extra = EXTRAS[package]
        how = f"which is not installed: pip install 'kafkatool[{extra}]'"
        if getattr(sys, "frozen", False):
            how = f"which this bundle does not hold: install kafkatool by pip, with the extra `{extra}`"
        super().__init__(f"{need} {package}, {how}{instead}")


class FormatError(KafkatoolError):
    """The bytes are not what their place requires."""

    def __init__(self, what: str, at: int, *, expected: object, found: object) -> None:
        found = _shortened(found)
        super().__init__(f"{what} at byte {at}: expected {expected}, found {found}")
        self.what = what
        self.at = at
        self.expected = expected
        self.found = found


def _shortened(found: object) -> object:
    """Shorten long text: a megabyte of garbage shows no more than its beginning."""
    if isinstance(found, str) and len(found) > _MOST_FOUND:
        return f"{found[:_MOST_FOUND]}… ({len(found)} characters)"
    return found


class Truncated(FormatError):
    """The bytes end before the structure does."""


class TooLarge(FormatError):
    """A limit was reached before the structure ended; nothing beyond it was allocated."""
