"""What a row of `stats` is about. By itself, so that the command line can name it without loading numpy."""

from __future__ import annotations

from enum import StrEnum


class By(StrEnum):
    FILE = "file"
    PARTITION = "partition"
    TOPIC = "topic"
