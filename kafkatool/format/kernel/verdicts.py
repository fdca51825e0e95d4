"""What the cleaner decides, as numbers shared by reference.py, cleaning.pxi and their callers."""

from __future__ import annotations

from enum import IntEnum


class Fate(IntEnum):
    """Whether a record stays, or why it is removed."""

    KEPT = 0
    SUPERSEDED = 1
    UNKEYED = 2
    TOMBSTONE = 3
    ABORTED = 4
    MARKER = 5


class Outcome(IntEnum):
    """What the cleaner does with a batch."""

    DROP = 0
    COPY = 1
    REWRITE = 2
    EMPTY = 3


IS_TAKEN, IS_SUPERSEDED = 1, 2
"""Per record: its key was stored; a later record with the same key was stored."""

IS_CONTROL, IS_DISCARDED, IS_PAST = 1, 2, 4
"""Per batch: holds markers; all of it goes, aborted or a marker no longer needed; its horizon has passed."""
