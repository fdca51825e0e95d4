"""Control records: transaction markers, and KRaft's own records.

key    int16 version (0), int16 type
value  0 ABORT, 1 COMMIT: int16 version (0), int32 coordinator epoch
              2 and up: a message; it is read as version 0, the version field inside decides what is shown
"""

from __future__ import annotations

from typing import cast

from kafkatool.format.primitives import write_int16, write_int32
from kafkatool.format.release import Release
from kafkatool.format.schema import DecoderThrows
from kafkatool.format.schema.jackson import as_json, json_text
from kafkatool.format.schema.layout import Tree, value_layout
from kafkatool.format.schema.notation import Message, parse_messages
from kafkatool.format.schema.reading import Unreadable, read_int16, read_int32, read_struct
from kafkatool.format.schema.tables.control import TABLE
from kafkatool.format.schema.writing import write_struct

NAMES = (
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
)
LABELS = {
    2: "LeaderChange:",
    3: "SnapshotHeader",
    4: "SnapshotFooter",
    5: "KRaftVersion",
    6: "KRaftVoters",
}
END_OF_TRANSACTION = (0, 1)
KEY_SIZE = 4

MESSAGES: dict[int, Message] = {message.api_key: message for message in parse_messages(TABLE)}


def control_text(release: Release, key: bytes | None, value: bytes | None) -> str:
    """Return what kafka-dump-log prints after a control record; raise DecoderThrows if it throws."""
    try:
        kind = read_control_type(key)
        if kind in END_OF_TRANSACTION:
            epoch = read_end_marker(value)
            return f" endTxnMarker: {NAMES[kind]} coordinatorEpoch: {epoch}"
        if kind not in LABELS:
            return f" controlType: UNKNOWN({kind})"
        if kind == 2 and release < Release.V4_1:
            return " controlType: LEADER_CHANGE(2)"
        tree, _ = _read_message(kind, value)
    except Unreadable as error:
        raise DecoderThrows(error.reason) from None
    layout = value_layout(MESSAGES[kind], cast(int, tree["version"]), release)
    return f" {LABELS[kind]} {json_text(as_json(layout, tree))}"


def control_row(key: bytes | None, value: bytes | None) -> Tree:
    """Return a row with `type`, and `value` or `error`."""
    try:
        kind = read_control_type(key)
    except Unreadable as error:
        return {"error": error.reason}
    row: Tree = {"type": NAMES[kind] if 0 <= kind < len(NAMES) else f"UNKNOWN({kind})"}
    try:
        if kind in END_OF_TRANSACTION:
            row["value"] = {"coordinatorEpoch": read_end_marker(value)}
        elif kind in MESSAGES:
            row["value"], unread = _read_message(kind, value)
            if unread:
                row["unreadBytes"] = unread
        else:
            row["value"] = value
    except Unreadable as error:
        row["error"] = error.reason
    return row


def read_control_type(key: bytes | None) -> int:
    """Return the type of a control record, known or not; raise Unreadable for a key without one."""
    if key is None or len(key) < KEY_SIZE:
        found = 0 if key is None else len(key)
        raise Unreadable(0, "Invalid value size found for control record key. Must have at least "
                            f"{KEY_SIZE} bytes, but found only {found}")  # fmt: skip
    _known_version(key, "control record")
    return read_int16(key, 2)[0]


def read_end_marker(value: bytes | None) -> int:
    """Return the coordinator epoch of a COMMIT or ABORT marker; raise Unreadable for a value without one."""
    _known_version(value or b"", "end transaction marker")
    return read_int32(value or b"", 2)[0]


def write_end_marker(committed: bool, coordinator_epoch: int) -> tuple[bytes, bytes]:
    """Encode (key, value) of the record that ends a transaction."""
    return write_control_key(int(committed)), write_int16(0) + write_int32(coordinator_epoch)


def write_control(kind: int, tree: Tree) -> tuple[bytes, bytes]:
    """Encode (key, value) of one of KRaft's records; raise FormatError for values that do not fit."""
    return write_control_key(kind), write_struct(value_layout(MESSAGES[kind], 0), tree)


def write_control_key(kind: int) -> bytes:
    return write_int16(0) + write_int16(kind)


def _known_version(raw: bytes, what: str) -> None:
    version, _ = read_int16(raw, 0)
    if version < 0:
        raise Unreadable(0, f"Invalid version found for {what}: {version}. May indicate data corruption")


def _read_message(kind: int, value: bytes | None) -> tuple[Tree, int]:
    if value is None:
        raise Unreadable(0, "the record has no value")
    tree, at = read_struct(value_layout(MESSAGES[kind], 0), value)
    return tree, len(value) - at
