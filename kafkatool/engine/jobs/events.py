"""What any run has to say on its way: a run yields it among its results, and whoever started it shows it.

Made on another process, events are sent back as a list and come in their turn.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Note:
    """Good to know."""

    message: str


@dataclass(frozen=True, slots=True)
class Detail:
    """Good to know for who asks for more."""

    message: str


@dataclass(frozen=True, slots=True)
class Caution:
    """Without this the result is not what it seems."""

    message: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Something could not be read or done; the rest goes on."""

    message: str


Said = Detail | Note | Caution | Failure
