"""Paths as java.io.File prints them: Kafka's lines name files this way."""

from __future__ import annotations

import os
import re

_SLASHES = re.compile("/{2,}")


def java_path(path: str) -> str:
    """Return the text of `new File(path)`: double slashes joined, no slash at the end, nothing resolved."""
    joined = _SLASHES.sub("/", path)
    return joined.rstrip("/") if len(joined) > 1 else joined


def java_absolute_path(path: str) -> str:
    """Return the text of getAbsolutePath: the working directory before a relative path, dots kept."""
    text = java_path(path)
    if text.startswith("/"):
        return text
    return os.getcwd() if not text else java_path(f"{os.getcwd()}/{text}")
