"""Who may read what: the principals of a credentials file, and the topics that each of them is allowed.

    # name:password[:topics], in a file that only its owner can read
    alice:wonderland
    bob:builder:orders,payments-*
    CN=mirror::orders

Topics are separated by commas, and a `*` at the end stands for any; left out, everything that is served may
be read. A name without a password cannot log in, and is there for certificates.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from kafkatool.engine.source import Guest, read_small_file
from kafkatool.errors import Refused, UsageError


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever is at the other end. Without topics of its own it may read everything."""

    name: str = "anonymous"
    topics: tuple[str, ...] | None = None

    def may_read(self, topic: str) -> bool:
        if self.topics is None:
            return True
        return any(topic.startswith(one[:-1]) if one.endswith("*") else topic == one for one in self.topics)


ANYBODY = Principal()


@dataclass(frozen=True, slots=True)
class Client:
    """Whom an answer is for."""

    host: str
    advertised: tuple[str, int]
    pause: Callable[[float], bool]
    """Sleep so many seconds; true where the client or the server is about to go."""
    principal: Principal = ANYBODY


@dataclass(frozen=True, slots=True)
class Credential:
    principal: Principal
    password: str


def read_credentials(path: str) -> dict[str, Credential]:
    """By name. Raises Refused where others can read the file, UsageError where a line is wrong."""
    try:
        mode = os.stat(path).st_mode
        text = read_small_file(path, Guest(), limit=1 << 20).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if mode & 0o077:
        raise Refused(f"{path}: others than its owner can read it (mode {mode & 0o777:o}): chmod 600 {path}")
    found: dict[str, Credential] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, rest = line.partition(":")
        if not colon or not name:
            raise UsageError(f"{path}: line {number}: write name:password or name:password:topic,topic")
        password, _colon, listed = rest.partition(":")
        topics = tuple(one.strip() for one in listed.split(",") if one.strip()) if listed else None
        found[name] = Credential(Principal(name, topics), password)
    if not found:
        raise UsageError(f"{path}: names nobody")
    return found
