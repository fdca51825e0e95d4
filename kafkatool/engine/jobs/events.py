"""Events that any run yields among its results, for its caller to show.

Events from a worker process are sent back as a list and yielded in order.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Note:
    """Information for the user."""

    message: str


@dataclass(frozen=True, slots=True)
class Detail:
    """A detail, shown with --verbose."""

    message: str


@dataclass(frozen=True, slots=True)
class Caution:
    """A warning: without it, the result is misleading."""

    message: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Something could not be read or done; the run continues with the rest."""

    message: str


Said = Detail | Note | Caution | Failure
