"""The framing of the coordinators' topics: offsets, transactions, share groups.

key    int16 record type, then the key's fields
value  int16 version, then the value's fields; null: a tombstone
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafkatool.format.primitives import write_int16
from kafkatool.format.release import NEWEST, Release
from kafkatool.format.schema import DecoderThrows
from kafkatool.format.schema.jackson import as_json, json_text
from kafkatool.format.schema.layout import Layout, Tree, key_layout, value_layout
from kafkatool.format.schema.notation import Message, named, parse_messages
from kafkatool.format.schema.reading import Unreadable, read_int16, read_struct
from kafkatool.format.schema.writing import write_struct

TOMBSTONE = "<DELETE>"

Polish = Callable[[Message, Tree], Tree]


class UnknownType(Unreadable):
    """No release, or not this one, has this record type."""

    def __init__(self, record_type: int) -> None:
        super().__init__(0, f"Found an unknown record type {record_type}")
        self.record_type = record_type


class Entry(NamedTuple):
    """One record; `value` and `version` are None for a tombstone."""

    record_type: int
    message: Message
    version: int | None
    key: Tree
    value: Tree | None
    unread: int


class Coordinator:
    """The messages of one topic."""

    def __init__(self, table: str) -> None:
        self.messages = parse_messages(table)
        self._by_type = {message.api_key: message for message in self.messages}

    def message(self, release: Release, record_type: int) -> Message | None:
        """Return the message with this number, if the release has it."""
        message = self._by_type.get(record_type)
        if message and message.name == "LegacyOffsetCommit" and release < message.since:
            message = self.named("OffsetCommit")  # both numbers meant it
        return message if message and message.known_to(release) else None

    def named(self, name: str) -> Message:
        return named(self.messages, name)

    def read(self, release: Release, key: bytes, value: bytes | None, *, any_version: bool = False) -> Entry:
        """Decode, or raise Unreadable; `any_version` reads unknown versions with the newest layout."""
        record_type, at = _read_number(key, "key")
        message = self.message(release, record_type)
        if message is None:
            raise UnknownType(record_type)
        key_tree, at = _read(key_layout(message), key, at, record_type, "key")
        unread = len(key) - at
        if value is None:
            return Entry(record_type, message, None, key_tree, None, unread)
        version, at = _read_number(value, "value")
        valid = message.valid(release)
        if not any_version and not valid.low <= version <= valid.high:
            raise Unreadable(0, f"Found an unknown record version {version} for {record_type} type")
        tree, at = _read(value_layout(message, version, release), value, at, version, "value")
        return Entry(record_type, message, version, key_tree, tree, unread + len(value) - at)

    def encode(
        self, name: str, version: int, key: Tree | None, value: Tree | None, release: Release = NEWEST
    ) -> tuple[bytes, bytes | None]:
        """Encode a record's key and value; raise FormatError for values that do not fit."""
        message = self.named(name)
        raw_key = write_int16(message.api_key) + write_struct(key_layout(message), key or {})
        if value is None:
            return raw_key, None
        return raw_key, write_int16(version) + write_struct(value_layout(message, version, release), value)

    def text(
        self,
        release: Release,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        *,
        polish: Polish | None = None,
        value_label: str = "version",
        decoder: str = "the specified decoder",
    ) -> tuple[str, str | None]:
        """Return what kafka-dump-log prints; `polish` first changes a value's JSON object."""
        if key is None:
            raise DecoderThrows(
                f"Failed to decode message at offset {offset} using {decoder} (message had a missing key)"
            )
        try:
            entry = self.read(release, key, value, any_version=release < Release.V4_0)
        except UnknownType as error:
            return f"Unknown record type {error.record_type} at offset {offset}, skipping.", None
        except Unreadable as error:
            return f"Error at offset {offset}, skipping. {error.reason}", None
        key_json = {"type": str(entry.record_type), "data": as_json(key_layout(entry.message), entry.key)}
        if entry.value is None or entry.version is None:
            return json_text(key_json), TOMBSTONE
        data = as_json(value_layout(entry.message, entry.version, release), entry.value)
        if polish:
            data = polish(entry.message, data)
        return json_text(key_json), json_text({value_label: str(entry.version), "data": data})

    def row(self, key: bytes | None, value: bytes | None, polish: Polish | None = None) -> Tree:
        """Return the record as a row, by the newest layout that fits all bytes, else some of them."""
        if key is None:
            return {"error": "the record has no key"}
        best: Tree | None = None
        failure: Unreadable | None = None
        for release in sorted(Release, reverse=True):
            try:
                entry = self.read(release, key, value, any_version=True)
            except Unreadable as error:
                failure = failure or error
                continue
            row = _row(entry, release, polish)
            if not entry.unread and "versionUnknown" not in row:
                return row
            best = best or row
        if best is not None:
            return best
        return {**self._partial_row(key), "error": str(failure and failure.reason)}

    def _partial_row(self, key: bytes) -> Tree:
        """Return a row of the key alone, where the value cannot be read."""
        for release in sorted(Release, reverse=True):
            try:
                entry = self.read(release, key, None)
            except Unreadable:
                continue
            return {"type": entry.message.name, "key": entry.key}
        return {}


def _row(entry: Entry, release: Release, polish: Polish | None) -> Tree:
    value = entry.value
    if value is not None and polish:
        value = polish(entry.message, value)
    row: Tree = {
        "type": entry.message.name,
        "version": entry.version,
        "key": entry.key,
        "value": value,
    }
    if entry.unread:
        row["unreadBytes"] = entry.unread
    valid = entry.message.valid(release)
    if entry.version is not None and not valid.low <= entry.version <= valid.high:
        row["versionUnknown"] = True
    if release != NEWEST and entry.message.known_to(NEWEST):
        row["layout"] = release.label
    return row


def _read_number(buf: bytes, name: str) -> tuple[int, int]:
    try:
        return read_int16(buf, 0)
    except Unreadable as error:
        raise Unreadable(error.at, f"Could not read version from {name}'s buffer.") from None


def _read(layout: Layout, buf: bytes, at: int, version: int, name: str) -> tuple[Tree, int]:
    try:
        return read_struct(layout, buf, at)
    except Unreadable as error:
        reason = f"Could not read record with version {version} from {name}'s buffer due to: {error.reason}."
        raise Unreadable(error.at, reason) from None
