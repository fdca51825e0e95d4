"""The tables of messages in `kafkatool/format`: what the releases define, merged and in our notation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from kafkatool.format.release import Release
from kafkatool.format.schema.notation import Versions
from tests.kafka import peers
from tests.kafka.making import message_choice as choice
from tests.kafka.making.message_choice import Messages
from tests.kafka.making.message_definitions import Definition, Line

ByRelease = dict[Release, Definition]


def tables() -> dict[str, str]:
    """Write every table of records, by the name of its module."""
    found = {topic: _numbered(partial(choice.topic_records, topic)) for topic in choice.TOPICS}
    found |= {"control": _chosen(choice.CONTROL), "consumer_protocol": _chosen(choice.CONSUMER_PROTOCOL)}
    return found


def protocol_table() -> str:
    """Write the table of what is spoken: the request and the response of each API."""
    return "\n".join(_spoken_text(name) for name in choice.spoken_names())


def protocol_definition(name: str) -> tuple[Definition, Versions]:
    """A request or response as the newest release has it that still knows all versions we speak; these."""
    versions = choice.SPOKEN[name.removesuffix("Request").removesuffix("Response")]
    for version in reversed(peers.RELEASES):
        definition = choice.client_messages([name], version)[name]
        if definition.valid.low <= versions.low and versions.high <= definition.valid.high:
            return definition, versions
    raise ValueError(f"{name}: no release knows all of {versions}")


def _numbered(read: Callable[[str], Messages]) -> str:
    """Write the messages in the order of their own numbers."""
    numbers = {}
    for name, releases in _by_release(read).items():
        (number,) = {one.number for one in releases.values() if one.number is not None}
        numbers[number] = name, releases
    return "\n".join(record_text(number, *numbers[number]) for number in sorted(numbers))


def _chosen(numbers: dict[int, str]) -> str:
    releases = _by_release(partial(choice.client_messages, list(numbers.values())))
    return "\n".join(record_text(number, name, releases[name]) for number, name in numbers.items())


def _by_release(read: Callable[[str], Messages]) -> dict[str, ByRelease]:
    """Each message by name, as every release that has it defines it; the oldest first."""
    found: dict[str, ByRelease] = {}
    for version in peers.RELEASES:
        for name, definition in read(version).items():
            found.setdefault(name, {})[Release.parse(version)] = definition
    return found


# --- the releases merged into one table ---------------------------------------------------------------


@dataclass(frozen=True)
class _Span:
    """A line, and what is below it in each of the releases that have it."""

    text: str
    is_struct: bool
    releases: dict[Release, tuple[Line, ...]]

    def is_like(self, line: Line) -> bool:
        # A struct in its place is another thing than one that is shared: Kafka checks its versions.
        return (self.text, self.is_struct) == (line.text, bool(line.children))


def record_text(number: int, name: str, releases: ByRelease) -> str:
    """Write a record as all releases have it."""
    known = list(releases)
    valid = [definition.valid for definition in releases.values()]
    every = Versions(min(versions.low for versions in valid), max(versions.high for versions in valid))
    flexible = {definition.flexible for definition in releases.values()}
    if len(flexible) > 1:
        raise ValueError(f"{name} became flexible between releases: our notation has no words for that")
    head = f"{number} {name}{_valid_words(releases)}{flexible.pop()}{_bounds(known, list(Release))}"
    lines = {release: definition.lines(every) for release, definition in releases.items()}
    return "\n".join([head, *_merged_text(lines, "  ")])


def _spoken_text(name: str) -> str:
    definition, versions = protocol_definition(name)
    head = f"{definition.number} {name}{_range_word(versions)}{definition.flexible}"
    return "\n".join([head, *_plain_text(definition.lines(versions), "  ")])


def _valid_words(releases: ByRelease) -> str:
    """Name the versions, and once more for each release that changed them; a lone v0 goes without saying."""
    words, last = "", None
    for release, definition in releases.items():
        if definition.valid != last:
            words += _range_word(definition.valid) + (f" from {release.label}" if last else "")
        last = definition.valid
    return "" if words == " v0" else words


def _range_word(versions: Versions) -> str:
    return f" v{versions.low}" if versions.low == versions.high else f" v{versions.low}-{versions.high}"


def _bounds(known: Sequence[Release], possible: Sequence[Release]) -> str:
    """Say when a thing came and went, if it was not there all the time."""
    first, last = possible.index(known[0]), possible.index(known[-1])
    if list(known) != list(possible[first : last + 1]):
        raise ValueError("gone and come back: our notation has no words for that")
    since = f" since {known[0].label}" if first else ""
    return since + (f" until {known[-1].label}" if known[-1] != possible[-1] else "")


def _merged_text(lines: dict[Release, tuple[Line, ...]], indent: str) -> Iterator[str]:
    for span in _merge(lines):
        # A struct is known where it is used.
        bounds = "" if span.text.startswith("struct ") else _bounds(list(span.releases), list(lines))
        if bounds and span.text.startswith("key: "):
            raise ValueError(f"{span.text}: the key has changed, and our notation has no words for that")
        yield indent + span.text + bounds
        yield from _merged_text(span.releases, indent + "  ")


def _merge(lines: dict[Release, tuple[Line, ...]]) -> list[_Span]:
    """Put the lines of all releases into one order that is the order of each."""
    spans: list[_Span] = []
    for release, own in lines.items():
        at = 0
        for line in own:
            while at < len(spans) and not any(map(spans[at].is_like, own)):
                at += 1  # gone in this release
            if at == len(spans) or not spans[at].is_like(line):
                spans.insert(at, _Span(line.text, bool(line.children), {}))
            spans[at].releases[release] = line.children
            at += 1
    return spans


def _plain_text(lines: Iterable[Line], indent: str) -> Iterator[str]:
    for line in lines:
        yield indent + line.text
        yield from _plain_text(line.children, indent + "  ")
