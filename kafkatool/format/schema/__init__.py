"""The records of Kafka's internal topics: decoded as kafka-dump-log prints them, and as JSON.

Each topic has a module with the table of its messages, imported when its decoder is first used.
"""

from __future__ import annotations

from enum import StrEnum
from importlib import import_module
from typing import Protocol, cast

from kafkatool.errors import FormatError
from kafkatool.format.release import NEWEST, Release


class Decoder(StrEnum):
    """The topic that records belong to, by the name of kafka-dump-log's flag."""

    OFFSETS = "offsets"
    TRANSACTION_LOG = "transaction-log"
    CLUSTER_METADATA = "cluster-metadata"
    REMOTE_LOG_METADATA = "remote-log-metadata"
    SHARE_GROUP_STATE = "share-group-state"


class DecoderThrows(FormatError):
    """Here kafka-dump-log itself ends with an exception; `reason` is its message."""

    def __init__(self, reason: str) -> None:
        super().__init__("record", 0, expected="what kafka-dump-log can decode", found=reason)
        self.reason = reason


_TOPICS = {
    "__consumer_offsets": Decoder.OFFSETS,
    "__transaction_state": Decoder.TRANSACTION_LOG,
    "__cluster_metadata": Decoder.CLUSTER_METADATA,
    "__remote_log_metadata": Decoder.REMOTE_LOG_METADATA,
    "__share_group_state": Decoder.SHARE_GROUP_STATE,
}

_MODULES = {
    Decoder.OFFSETS: "consumer_offsets",
    Decoder.TRANSACTION_LOG: "transaction_state",
    Decoder.CLUSTER_METADATA: "cluster_metadata",
    Decoder.REMOTE_LOG_METADATA: "remote_log_metadata",
    Decoder.SHARE_GROUP_STATE: "share_group_state",
}


class _Encoder(Protocol):
    def encode(
        self,
        name: str,
        version: int,
        key: dict[str, object] | None,
        value: dict[str, object] | None,
        release: Release,
    ) -> tuple[bytes | None, bytes | None]: ...


class _Topic(Protocol):
    TOPIC: _Encoder

    def decode_text(
        self, release: Release, offset: int, key: bytes | None, value: bytes | None, redacted: bool
    ) -> tuple[str | None, str | None]: ...

    def decode_row(self, key: bytes | None, value: bytes | None) -> dict[str, object]: ...


def _topic(decoder: Decoder) -> _Topic:
    return cast(_Topic, import_module(f"{__name__}.{_MODULES[decoder]}"))


def decoder_for_topic(topic: str) -> Decoder | None:
    """Return the decoder for an internal topic; None for any other topic."""
    return _TOPICS.get(topic)


def decode_text(
    decoder: Decoder,
    release: Release,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    *,
    redacted: bool = False,
) -> tuple[str | None, str | None]:
    """Return what this release's kafka-dump-log prints after `key:` and `payload:`; None for nothing.

    Damage gives the text that it prints about it; raises DecoderThrows where it ends with an exception
    instead. `redacted` hides secrets, which kafka-dump-log does not.
    """
    return _topic(decoder).decode_text(release, offset, key, value, redacted)


def decode_row(
    decoder: Decoder, key: bytes | None, value: bytes | None, *, redacted: bool = False
) -> dict[str, object]:
    """Return the record as a JSON object: `type`, `version`, `key` and `value`; never raise.

    `value` is None for a tombstone. `error` says what could not be read, `unreadBytes` counts bytes left
    over, and `layout` names an older release if only its layout fits.
    """
    row = _topic(decoder).decode_row(key, value)
    if redacted:
        from kafkatool.format.schema.redaction import redact_row

        row = redact_row(row)
    return cast(dict[str, object], _jsonable(row))


def holds_secrets(key: bytes | None, value: bytes | None) -> bool:
    """Return whether a record of the metadata log holds what --redact hides, or cannot be read."""
    row = decode_row(Decoder.CLUSTER_METADATA, key, value)
    return "error" in row or row != decode_row(Decoder.CLUSTER_METADATA, key, value, redacted=True)


def encode_record(
    decoder: Decoder,
    name: str,
    version: int,
    value: dict[str, object] | None,
    key: dict[str, object] | None = None,
    release: Release = NEWEST,
) -> tuple[bytes | None, bytes | None]:
    """Encode a record (key, value) as that release lays it out; missing fields get their defaults.

    A `value` of None is a tombstone, where the topic has them. Raises FormatError for values that do not fit.
    """
    return _topic(decoder).TOPIC.encode(name, version, key, value, release)


def control_text(release: Release, key: bytes | None, value: bytes | None) -> str:
    """Return what kafka-dump-log prints after a control record; raise DecoderThrows if it throws."""
    from kafkatool.format.schema import control

    return control.control_text(release, key, value)


def control_row(key: bytes | None, value: bytes | None) -> dict[str, object]:
    """Return a control record as a JSON object: `type`, and `value` or `error`; never raise."""
    from kafkatool.format.schema import control

    return cast(dict[str, object], _jsonable(control.control_row(key, value)))


def _jsonable(value: object) -> object:
    """Convert bytes to base64, and NaN and the infinities to text; the rest is JSON already."""
    if isinstance(value, bytes):
        from base64 import b64encode

        return b64encode(value).decode()
    if isinstance(value, float) and value - value != 0:
        from kafkatool.format.java_values import java_double

        return java_double(value)
    if isinstance(value, dict):
        return {name: _jsonable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_jsonable(item) for item in value]
    return value
