"""What the cleaner decides: numbers that reference.py and cleaning.pxi share with those who ask."""

from __future__ import annotations

from enum import IntEnum


class Fate(IntEnum):
    """Why a record goes."""

    KEPT = 0
    SUPERSEDED = 1
    UNKEYED = 2
    TOMBSTONE = 3
    ABORTED = 4
    MARKER = 5


class Outcome(IntEnum):
    """What becomes of a batch."""

    DROP = 0
    COPY = 1
    REWRITE = 2
    EMPTY = 3


IS_TAKEN, IS_SUPERSEDED = 1, 2
"""Of a record: its key was noted; and a later one was noted with the same key."""

IS_CONTROL, IS_DISCARDED, IS_PAST = 1, 2, 4
"""Of a batch: markers; all of it goes, as aborted or as a marker that nobody needs; its horizon is over."""
