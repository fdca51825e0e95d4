"""`__consumer_offsets`: committed offsets, and the members and assignments of all kinds of groups."""

from __future__ import annotations

from typing import cast

from kafkatool.format.release import Release
from kafkatool.format.schema.coordinator import Coordinator
from kafkatool.format.schema.jackson import as_json
from kafkatool.format.schema.layout import Tree, value_layout
from kafkatool.format.schema.notation import Message, parse_messages
from kafkatool.format.schema.reading import Unreadable, read_int16, read_struct
from kafkatool.format.schema.tables.consumer_offsets import TABLE
from kafkatool.format.schema.tables.consumer_protocol import TABLE as CONSUMER_PROTOCOL

TOPIC = Coordinator(TABLE)
# What a classic member sends in its `subscription` and `assignment`, after an int16 version.
SUBSCRIPTION, ASSIGNMENT = parse_messages(CONSUMER_PROTOCOL)


def decode_text(
    release: Release, offset: int, key: bytes | None, value: bytes | None, redacted: bool
) -> tuple[str, str | None]:
    decoder = "the specified decoder" if release >= Release.V4_1 else "offset topic decoder"
    return TOPIC.text(release, offset, key, value, polish=_open_members, decoder=decoder)


def decode_row(key: bytes | None, value: bytes | None) -> Tree:
    return TOPIC.row(key, value, _open_members)


def _open_members(message: Message, group: Tree) -> Tree:
    """Decode what the members of a classic consumer group sent; other protocols are opaque."""
    if message.name != "GroupMetadata" or group["protocolType"] != "consumer":
        return group
    members = []
    for member in cast(list[Tree], group["members"]):
        subscription = _open(SUBSCRIPTION, cast(bytes, member["subscription"]))
        assignment = _open(ASSIGNMENT, cast(bytes, member["assignment"]))
        members.append({**member, "subscription": subscription, "assignment": assignment})
    return {**group, "members": members}


def _open(message: Message, raw: bytes) -> object:
    """Return the decoded object, or the bytes unchanged if they do not decode."""
    try:
        version, at = read_int16(raw, 0)
        layout = value_layout(message, version)
        tree, _ = read_struct(layout, raw, at)
    except Unreadable:
        return raw
    return as_json(layout, tree)
