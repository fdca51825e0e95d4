"""Kafka's UUIDs in text: 16 bytes in URL-safe base64 without padding, 22 characters."""

from __future__ import annotations

import base64
import re

ZERO_UUID = bytes(16)
METADATA_TOPIC_ID = bytes(15) + b"\x01"

# Padding is accepted, and so are stray bits in the last character: Java's decoder drops them.
_TEXT = re.compile(r"[A-Za-z0-9_-]{22}(==)?")


def parse_uuid(text: str) -> bytes | None:
    """Read a UUID as Uuid.fromString does; None where that throws."""
    if not _TEXT.fullmatch(text):
        return None
    return base64.urlsafe_b64decode(text[:22] + "==")


def uuid_text(raw: bytes) -> str:
    """Write 16 bytes as 22 characters."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
