"""What a row of `stats` is about. A module of its own, so that the command line need not load numpy."""

from __future__ import annotations

from enum import StrEnum


class By(StrEnum):
    FILE = "file"
    PARTITION = "partition"
    TOPIC = "topic"
