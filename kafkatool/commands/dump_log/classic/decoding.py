"""From the decoder flags to what is printed after `key:` and `payload:`."""

from __future__ import annotations

from collections.abc import Callable

from kafkatool.commands.dump_log.classic.options import ClassicOptions
from kafkatool.errors import UsageError
from kafkatool.format.java_values import java_utf8
from kafkatool.format.primitives import read_int32, read_int64
from kafkatool.format.release import Release
from kafkatool.format.schema import decode_text

Decode = Callable[[int, bytes | None, bytes | None], tuple[str | None, str | None]]
"""Turns offset, key and value of a record into the texts printed for key and payload; None prints nothing."""

_PACKAGE = "org.apache.kafka.tools.api."
_OLD_PACKAGE = "kafka.serializer."  # until 3.9, which calls it deprecated


def _object_identity(raw: bytes) -> str:
    """Return what Java prints for an array: its address in memory, which differs in every run."""
    return f"[B@{hash(raw) & 0xFFFFFFFF:x}"


_CLASSES: dict[str, Callable[[bytes], str]] = {
    "StringDecoder": java_utf8,
    "IntegerDecoder": lambda raw: str(read_int32(raw, 0)[0]),
    "LongDecoder": lambda raw: str(read_int64(raw, 0)[0]),
    "DefaultDecoder": _object_identity,
}


def decode_with(options: ClassicOptions, emit: Callable[[str], None]) -> Decode:
    """Return the decoder that the flags choose. Raises UsageError for a class that is not Kafka's own.

    A decoder may raise FormatError where Kafka's throws. What Kafka prints while choosing goes to `emit`.
    """
    decoder = options.decoder
    if decoder is not None:
        release, redacted = options.release, options.redact
        return lambda offset, key, value: decode_text(decoder, release, offset, key, value, redacted=redacted)
    decode_value = _class(options.value_decoder, options.release, emit)
    decode_key = _class(options.key_decoder, options.release, emit)

    def decode(_offset: int, key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
        return None if key is None else decode_key(key), None if value is None else decode_value(value)

    return decode


def _class(name: str | None, release: Release, emit: Callable[[str], None]) -> Callable[[bytes], str]:
    if name is None:
        return java_utf8
    if release < Release.V4_0 and name.startswith(_OLD_PACKAGE):
        short = name.removeprefix(_OLD_PACKAGE)
        if short in _CLASSES:
            emit(f"{name} is deprecated. Please use {_PACKAGE}{short} instead")
            return _CLASSES[short]
    decode = _CLASSES.get(name.removeprefix(_PACKAGE))
    if decode is None:
        known = ", ".join(_PACKAGE + short for short in _CLASSES)
        raise UsageError(f"decoder class {name!r} is not one of Kafka's own: {known}")
    return decode
