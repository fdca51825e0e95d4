"""Access control: the principals of a credentials file, and the topics each of them may read.

    # name:password[:topics], in a file that only its owner can read
    alice:wonderland
    bob:builder:orders,payments-*
    CN=mirror::orders

Topics are separated by commas, and a trailing `*` matches any suffix; without a topic list, everything that
is served may be read. A name without a password cannot log in: it is for client certificates. Any other line
is refused, because guessing what it means would be guessing access rights.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from kafkatool.engine.advice.table import Advice
from kafkatool.engine.files.source import Guest, read_small_file
from kafkatool.engine.serve.budget import Budget, Share
from kafkatool.errors import Refused, UsageError
from kafkatool.format.names import topic_problem

_LARGEST_FILE = 1 << 20
_EXPECTED = "write name:password or name:password:topic,topic*, without colons in the password"


@dataclass(frozen=True, slots=True)
class Principal:
    """The authenticated client. If `topics` is None, it may read everything."""

    name: str = "anonymous"
    topics: tuple[str, ...] | None = None

    def may_read(self, topic: str) -> bool:
        if self.topics is None:
            return True
        return any(topic.startswith(one[:-1]) if one.endswith("*") else topic == one for one in self.topics)


ANYBODY = Principal()


@dataclass(frozen=True, slots=True)
class Client:
    """The client that an answer is for."""

    host: str
    advertised: tuple[str, int]
    pause: Callable[[float], bool]
    """Sleep for that many seconds; return true if the client hung up or the server is stopping."""
    principal: Principal = ANYBODY
    share: Share = field(default_factory=lambda: Share(Budget()))
    """The memory that the answer may take."""


@dataclass(frozen=True, slots=True)
class Credential:
    principal: Principal
    password: str


def others_can_read(mode: int) -> bool:
    return bool(mode & 0o077)


def read_credentials(path: str) -> dict[str, Credential]:
    """Read a credentials file; return the credentials by name.

    Raises Refused if others can read the file, UsageError if a line is wrong.
    """
    try:
        found_file = os.stat(path)
        text = read_small_file(path, Guest(), limit=_LARGEST_FILE).decode("utf-8-sig")
    except UnicodeDecodeError as error:  # the error's own text would quote bytes that may be a password
        raise UsageError(f"{path}: byte {error.start} is not UTF-8 text") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    if found_file.st_size > _LARGEST_FILE:
        raise UsageError(f"{path}: larger than the {_LARGEST_FILE} bytes that are read of such a file")
    if others_can_read(found_file.st_mode):
        mode = found_file.st_mode & 0o777
        raise Refused(
            f"{path}: others than its owner can read it (mode {mode:o}): {Advice.HIDE_SECRET(file=path)}"
        )
    found: dict[str, tuple[int, Credential]] = {}
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            credential = _read_line(line)
        except ValueError as problem:
            raise UsageError(f"{path}: line {number}: {problem}; {_EXPECTED}") from None
        name = credential.principal.name
        if name in found:
            raise UsageError(f"{path}: line {number}: {name!r} is on line {found[name][0]} already")
        found[name] = number, credential
    if not found:
        raise UsageError(f"{path}: names nobody; {_EXPECTED}")
    return {name: credential for name, (_number, credential) in found.items()}


def _read_line(line: str) -> Credential:
    """Parse one line. The ValueError it raises never repeats what could be a password."""
    parts = line.split(":")
    if not 2 <= len(parts) <= 3:
        raise ValueError(f"{len(parts) - 1} colons")
    name, password = parts[:2]
    if not name or name != name.strip() or not name.isprintable():
        raise ValueError("no name, or one with blanks around it or control characters in it")
    if not password.isprintable():
        raise ValueError("control characters in the password")
    topics = tuple(map(_read_topic, parts[2].split(","))) if len(parts) == 3 else None
    return Credential(Principal(name, topics), password)


def _read_topic(text: str) -> str:
    """Return one topic name or prefix; reject what could never match."""
    topic = text.strip()
    problem = topic_problem(topic.removesuffix("*")) if topic != "*" else None
    if problem is not None:
        raise ValueError(f"a topic of the list is none: {problem}")
    return topic
