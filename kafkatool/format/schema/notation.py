"""The notation our message tables are written in, and its parser.

    2 GroupMetadata v0-4 flexible 4            record type or api key, name, versions, first flexible version
      key: group string                        fields of the record's key (coordinator topics only)
      generation int32
      protocol string?                         may be null
      currentStateTimestamp int64 v2+ = -1     only in these versions; the value where it is missing
      topicId uuid v4+ tag 0 since 4.1         in the tag section; unknown to earlier releases
      members []MemberMetadata                 a struct, its fields below it
        memberId string
      tasks []TaskIds                          a struct defined once …
      struct TaskIds                           … and used by name
        subtopologyId string

By default versions are `v0`, and a message is `flexible 0`; `rigid` is one without tag sections. `v0-3 v0-4
from 4.3`: up to 3, and up to 4 from that release on. On a message or field, `since` and `until` name the
first and last release that knows it: some layouts changed without a new version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kafkatool.errors import UsageError
from kafkatool.format.release import NEWEST, Release

OLDEST = min(Release)
ANY_VERSION = 1 << 15


class Versions(NamedTuple):
    low: int
    high: int


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    name: str
    kind: str  # of a value, or of an element where `array`; the name of the struct where there is one
    array: bool
    nullable: bool
    versions: Versions
    tag: int | None
    default: object
    since: Release
    until: Release
    struct: Struct | None


@dataclass(frozen=True, slots=True, eq=False)
class Struct:
    name: str
    fields: tuple[Field, ...]
    checked: bool  # Kafka refuses to read it in versions above the message's own


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    api_key: int
    name: str
    versions: tuple[tuple[Release, Versions], ...]  # (since, valid versions), newest last
    first_flexible: int | None
    since: Release
    until: Release
    key: Struct
    value: Struct

    def valid(self, release: Release) -> Versions:
        """Return the versions that this release writes and reads."""
        return [versions for since, versions in self.versions if since <= release][-1]

    def known_to(self, release: Release) -> bool:
        return self.since <= release <= self.until


class _Line(NamedTuple):
    words: list[str]
    children: list[_Line]


def parse_messages(text: str) -> tuple[Message, ...]:
    """Parse a table; the text is ours, so a mistake in it is a ValueError that a test finds."""
    return tuple(_message(line) for line in _tree(text))


def named(messages: Iterable[Message], name: str) -> Message:
    """Find a message by name; raise UsageError for one that is not there."""
    for message in messages:
        if message.name == name:
            return message
    raise UsageError(f"no message is called {name!r}")


def _tree(text: str) -> list[_Line]:
    root = _Line([], [])
    path = [(-1, root)]
    for raw in text.splitlines():
        words = raw.split()
        if not words:
            continue
        depth = len(raw) - len(raw.lstrip())
        while path[-1][0] >= depth:
            path.pop()
        line = _Line(words, [])
        path[-1][1].children.append(line)
        path.append((depth, line))
    return root.children


def _message(line: _Line) -> Message:
    words = iter(line.words)
    api_key, name = int(next(words)), next(words)
    versions: list[tuple[Release, Versions]] = []
    flexible: int | None = 0
    since, until = OLDEST, NEWEST
    for word in words:
        if word[0] == "v" and word[1].isdigit():
            versions.append((OLDEST, _versions(word)))
        elif word == "from":  # the versions just named are those from this release on
            versions[-1] = (Release.parse(next(words)), versions[-1][1])
        elif word == "flexible":
            flexible = int(next(words))
        elif word == "rigid":
            flexible = None
        elif word in ("since", "until"):
            since, until = _bounds(word, next(words), since, until)
        else:
            raise ValueError(f"{name}: what is {word!r}?")
    commons = {child.words[1]: child for child in line.children if child.words[0] == "struct"}
    plain = [child for child in line.children if child.words[0] not in ("struct", "key:")]
    keys = [child for child in line.children if child.words[0] == "key:"]
    return Message(
        api_key,
        name,
        tuple(versions) or ((OLDEST, Versions(0, 0)),),
        flexible,
        since,
        until,
        Struct(name + "Key", _fields(_key_lines(keys), commons), False),
        Struct(name + "Value", _fields(plain, commons), False),
    )


def _key_lines(lines: Iterable[_Line]) -> Iterator[_Line]:
    for line in lines:
        for part in " ".join(line.words[1:]).split(", "):
            yield _Line(part.split(), [])


def _fields(lines: Iterable[_Line], commons: dict[str, _Line]) -> tuple[Field, ...]:
    return tuple(_field(line, commons) for line in lines)


def _field(line: _Line, commons: dict[str, _Line]) -> Field:
    words = iter(line.words)
    name, kind = next(words), next(words)
    array, nullable = kind.startswith("[]"), kind.endswith("?")
    kind = kind.removeprefix("[]").removesuffix("?")
    versions, tag = Versions(0, ANY_VERSION), None
    default = [] if array else _zero(kind)
    since, until = OLDEST, NEWEST
    for word in words:
        if word == "tag":
            tag = int(next(words))
        elif word == "=":
            default = _default(next(words))
        elif word in ("since", "until"):
            since, until = _bounds(word, next(words), since, until)
        else:
            versions = _versions(word)
    struct = _struct(kind, line, commons)
    return Field(name, kind, array, nullable, versions, tag, default, since, until, struct)


def _struct(kind: str, line: _Line, commons: dict[str, _Line]) -> Struct | None:
    if kind[0].islower():
        return None
    if line.children:
        return Struct(kind, _fields(line.children, commons), True)
    return Struct(kind, _fields(commons[kind].children, commons), False)


def _versions(word: str) -> Versions:
    low, dash, high = word.removeprefix("v").removesuffix("+").partition("-")
    if word.endswith("+"):
        return Versions(int(low), ANY_VERSION)
    return Versions(int(low), int(high) if dash else int(low))


def _bounds(word: str, release: str, since: Release, until: Release) -> tuple[Release, Release]:
    named = Release.parse(release)
    return (named, until) if word == "since" else (since, named)


def _zero(kind: str) -> object:
    zeros: dict[str, object] = {
        "string": "",
        "bytes": b"",
        "records": b"",
        "bool": False,
        "float64": 0.0,
        "uuid": "A" * 22,
    }
    return None if kind[0].isupper() else zeros.get(kind, 0)


def _default(word: str) -> object:
    words: dict[str, object] = {"null": None, "true": True, "false": False}
    return words[word] if word in words else int(word)
