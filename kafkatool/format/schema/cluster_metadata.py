"""`__cluster_metadata`: the records that make up a KRaft cluster's metadata, in its log and its snapshots."""

from __future__ import annotations

import re

from kafkatool.format.release import Release
from kafkatool.format.schema.framed import Framed
from kafkatool.format.schema.jackson import as_json, json_text
from kafkatool.format.schema.layout import Tree, value_layout
from kafkatool.format.schema.reading import Unreadable
from kafkatool.format.schema.redaction import redact
from kafkatool.format.schema.tables.cluster_metadata import TABLE

TOPIC = Framed(TABLE)

_WORD = re.compile(r"(?<!^)(?=[A-Z])")


def decode_text(
    release: Release, offset: int, key: bytes | None, value: bytes | None, redacted: bool
) -> tuple[None, str]:
    try:
        entry = TOPIC.read(release, value)
    except Unreadable as error:
        return None, f"Error at {offset}, skipping. {error.reason}"
    name = entry.message.name
    tree = redact(name, entry.value) if redacted else entry.value
    data = as_json(value_layout(entry.message, entry.version, release), tree)
    return None, json_text({"type": _WORD.sub("_", name).upper(), "version": entry.version, "data": data})


def decode_row(key: bytes | None, value: bytes | None) -> Tree:
    return TOPIC.row(value)
