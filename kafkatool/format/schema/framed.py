"""The framing of `__cluster_metadata` and `__remote_log_metadata`: everything is in the value.

uvarint frame version (1), uvarint api key, uvarint version, then the fields; nothing may follow
"""

from __future__ import annotations

from typing import NamedTuple

from kafkatool.format.primitives import write_uvarint
from kafkatool.format.release import NEWEST, Release
from kafkatool.format.schema.layout import Tree, value_layout
from kafkatool.format.schema.notation import Message, named, parse_messages
from kafkatool.format.schema.reading import Unreadable, read_struct, read_uvarint
from kafkatool.format.schema.writing import write_struct

FRAME_VERSION = 1

_PREVIEW_FRAME = (
    "Could not deserialize metadata record with frame version 0. Note that upgrades from the preview "
    "release of KRaft in 2.8 to newer versions are not supported."
)
_UNKNOWN_FRAME = (
    "Could not deserialize metadata record due to unknown frame version {}(only frame version 1 is supported)"
)


class FramedEntry(NamedTuple):
    message: Message
    version: int
    value: Tree
    unread: int


class Framed:
    """The messages of one topic."""

    def __init__(self, table: str) -> None:
        self.messages = parse_messages(table)
        self._by_key = {message.api_key: message for message in self.messages}

    def message(self, release: Release, api_key: int) -> Message | None:
        """Return the message with this number, if the release has it."""
        message = self._by_key.get(api_key)
        return message if message and message.known_to(release) else None

    def read(self, release: Release, value: bytes | None, *, lenient: bool = False) -> FramedEntry:
        """Decode as this release does, or raise Unreadable; `lenient` allows bytes after the fields."""
        frame, at = _read_short(value, 0, "frame version")
        assert value is not None
        if frame != FRAME_VERSION:
            raise Unreadable(0, _PREVIEW_FRAME if frame == 0 else _UNKNOWN_FRAME.format(frame))
        api_key, at = _read_short(value, at, "type")
        version, at = _read_short(value, at, "version")
        message = self.message(release, api_key)
        if message is None:
            name = "org.apache.kafka.common.errors.UnsupportedVersionException"
            raise Unreadable(at, f"{name}: Unknown metadata id {api_key}")
        try:
            tree, at = read_struct(value_layout(message, version, release), value, at)
        except Unreadable as error:
            text = f"Failed to deserialize record with type {api_key}"
            raise FieldUnreadable(error.at, text, error.reason) from None
        if at < len(value) and not lenient:
            raise Unreadable(at, f"Found {len(value) - at} byte(s) of garbage after {api_key}")
        return FramedEntry(message, version, tree, len(value) - at)

    def encode(
        self, name: str, version: int, key: Tree | None, value: Tree | None, release: Release = NEWEST
    ) -> tuple[None, bytes]:
        """Encode a record, which has no key; raise FormatError for values that do not fit."""
        message = named(self.messages, name)
        head = b"".join(map(write_uvarint, (FRAME_VERSION, message.api_key, version)))
        return None, head + write_struct(value_layout(message, version, release), value or {})

    def row(self, value: bytes | None) -> Tree:
        """Return the record as a row, by the newest layout that fits all bytes, else some of them."""
        if value is None:
            return {"error": "the record has no value"}
        best: Tree | None = None
        failure: Unreadable | None = None
        for release in sorted(Release, reverse=True):
            try:
                entry = self.read(release, value, lenient=True)
            except Unreadable as error:
                failure = failure or error
                continue
            row = _row(entry, release)
            if not entry.unread:
                return row
            best = best or row
        return best if best is not None else {"error": str(failure and failure.detail)}


class FieldUnreadable(Unreadable):
    """A record for which Kafka's message does not say which field is wrong."""

    def __init__(self, at: int, reason: str, cause: str) -> None:
        super().__init__(at, reason)
        self.cause = cause

    @property
    def detail(self) -> str:
        return f"{self.reason}: {self.cause}"


def _row(entry: FramedEntry, release: Release) -> Tree:
    row: Tree = {
        "type": entry.message.name,
        "version": entry.version,
        "key": None,
        "value": entry.value,
    }
    if entry.unread:
        row["unreadBytes"] = entry.unread
    valid = entry.message.valid(release)
    if not valid.low <= entry.version <= valid.high:
        row["versionUnknown"] = True
    if release != NEWEST:
        row["layout"] = release.label
    return row


def _read_short(buf: bytes | None, at: int, what: str) -> tuple[int, int]:
    """Read a number that Kafka keeps in 16 bits: larger ones are refused, negative ones truncated."""
    try:
        value, at = read_uvarint(buf or b"", at)
    except Unreadable:
        raise Unreadable(at, f"Error while reading {what}") from None
    if value > 0x7FFF:
        raise Unreadable(at, f"Value for {what} was too large.")
    return ((value & 0xFFFF) ^ 0x8000) - 0x8000, at
