"""`partition.metadata`: the topic's id; needed where a directory name was cut short.

    version: 0\\n
    topic_id: AAAAAAAAAAAAAAAAAAAAAQ        22 characters, no line end

A reader takes the text after the first run of ": ", whatever precedes it, and any version from 0 up.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kafkatool.errors import FormatError
from kafkatool.format.java_text import WHITE_SPACE, parse_int, split_fields, utf8_lines
from kafkatool.format.primitives import Buffer
from kafkatool.format.uuids import ZERO_UUID, parse_uuid, uuid_text

_COLON = re.compile(f":[{WHITE_SPACE}]+")


class PartitionMetadata(NamedTuple):
    version: int
    topic_id: str


def read_partition_metadata(buf: Buffer) -> PartitionMetadata:
    """Decode the file; raise FormatError where a broker would refuse it."""
    lines = utf8_lines(buf, "partition metadata")
    at, line = next(lines, (0, ""))
    version = parse_int(_value(line))
    if version is None or version < 0:
        raise FormatError("partition metadata version", at, expected="'version: 0'", found=repr(line))
    at, line = next(lines, (len(buf), ""))
    topic_id = parse_uuid(_value(line))
    if topic_id is None or topic_id == ZERO_UUID:
        raise FormatError("partition metadata topic id", at, expected="'topic_id: …'", found=repr(line))
    return PartitionMetadata(version, uuid_text(topic_id))


def write_partition_metadata(metadata: PartitionMetadata) -> bytes:
    return f"version: {metadata.version}\ntopic_id: {metadata.topic_id}".encode()


def _value(line: str) -> str:
    """Return the second of exactly two fields, else "", which is neither a number nor an id."""
    fields = split_fields(line, _COLON)
    return fields[1] if len(fields) == 2 else ""
