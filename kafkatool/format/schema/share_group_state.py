"""`__share_group_state`: which records of a share partition are acquired, acknowledged or archived."""

from __future__ import annotations

from kafkatool.format.release import Release
from kafkatool.format.schema.coordinator import Coordinator
from kafkatool.format.schema.layout import Tree
from kafkatool.format.schema.tables.share_group_state import TABLE

TOPIC = Coordinator(TABLE)


def decode_text(
    release: Release, offset: int, key: bytes | None, value: bytes | None, redacted: bool
) -> tuple[str, str | None]:
    """Return key and value as text; 3.9 has no such decoder and gets the text of 4.0, which has."""
    if release >= Release.V4_1:
        return TOPIC.text(release, offset, key, value)
    return TOPIC.text(
        Release.V4_0, offset, key, value, value_label="type", decoder="share group state topic decoder"
    )


def decode_row(key: bytes | None, value: bytes | None) -> Tree:
    return TOPIC.row(key, value)
