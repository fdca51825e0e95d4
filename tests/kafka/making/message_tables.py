"""The tables of messages in `kafkatool/format`, written from the definitions in Kafka's jars.

    python -m tests.kafka.making.message_tables        write the tables, and docs/message-changes.md

What is read of Kafka is chosen here; everything else about a message is Kafka's word.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafkatool.format.release import Release
from kafkatool.format.schema.notation import Versions
from tests.kafka import peers
from tests.kafka.making.message_definitions import Definition, Line, read_definitions
from tests.places import ROOT

# --- the choice ---------------------------------------------------------------------------------------

# Topic -> the artifact all of whose numbered messages are its records.
TOPICS = {
    "cluster_metadata": "kafka-metadata",
    "consumer_offsets": "kafka-group-coordinator",
    "transaction_state": "kafka-transaction-coordinator",
    "share_group_state": "kafka-share-coordinator",
    "remote_log_metadata": "kafka-storage",
}

# 3.9 defines these and reads none of them.
UNREAD = {"3.9.2": ("ShareGroupPartitionMetadata", "ShareGroupMemberMetadata", "ShareGroupMetadata")}

# The definitions of these have no number. Those of control records are in the source of Kafka.
CONTROL = {
    2: "LeaderChangeMessage",
    3: "SnapshotHeaderRecord",
    4: "SnapshotFooterRecord",
    5: "KRaftVersionRecord",
    6: "VotersRecord",
}
CONSUMER_PROTOCOL = {0: "ConsumerProtocolSubscription", 1: "ConsumerProtocolAssignment"}
CLIENTS = "kafka-clients"

# What `kafkatool serve` speaks.
SPOKEN = {
    "Produce": Versions(3, 8),  # refused, but librdkafka concludes from it what else we understand
    "Fetch": Versions(4, 11),  # from the first with magic 2 to the last in which nothing follows the records
    "ListOffsets": Versions(1, 7),
    "Metadata": Versions(0, 8),  # from 9 on clients rely on leader epochs, and put topic ids into Fetch
    "OffsetCommit": Versions(2, 7),
    "OffsetFetch": Versions(1, 5),  # librdkafka crashes where it is not listed
    "FindCoordinator": Versions(0, 2),
    "JoinGroup": Versions(0, 5),
    "Heartbeat": Versions(0, 3),
    "LeaveGroup": Versions(0, 3),
    "SyncGroup": Versions(0, 3),
    "DescribeGroups": Versions(0, 4),
    "ListGroups": Versions(0, 2),
    "SaslHandshake": Versions(0, 1),
    "ApiVersions": Versions(0, 4),
    "DescribeConfigs": Versions(0, 3),
    "SaslAuthenticate": Versions(0, 1),
    "DescribeCluster": Versions(0, 1),
}

SCHEMA_TABLES = ROOT / "kafkatool/format/schema/tables"
PROTOCOL_TABLE = ROOT / "kafkatool/format/protocol/tables.py"

ByRelease = dict[Release, Definition]


# --- what the releases define -------------------------------------------------------------------------


def messages_of(artifact: str) -> dict[str, ByRelease]:
    """Every message of an artifact, by name, as each release that has it defines it; the oldest first."""
    found: dict[str, ByRelease] = {}
    for version in peers.RELEASES:
        jars = tuple(map(Path, peers.classpath(version).split(os.pathsep)))
        for name, definition in read_definitions(jars).get(artifact, {}).items():
            if name not in UNREAD.get(version, ()):
                found.setdefault(name, {})[Release.parse(version)] = definition
    return found


def numbered(artifact: str) -> list[tuple[int, str, ByRelease]]:
    """The messages of an artifact that have a number, in the order of theirs."""
    found = []
    for name, releases in messages_of(artifact).items():
        number = releases[max(releases)].number
        if number is not None:
            found.append((number, name, releases))
    return sorted(found)


def chosen(numbers: dict[int, str]) -> list[tuple[int, str, ByRelease]]:
    """The messages of the clients that we have numbers for."""
    messages = messages_of(CLIENTS)
    return [(number, name, messages[name]) for number, name in numbers.items()]


def spoken_messages() -> list[tuple[Versions, str, ByRelease]]:
    """The requests and responses of what is spoken, with the versions."""
    messages = messages_of(CLIENTS)
    return [
        (versions, name, messages[name])
        for api, versions in SPOKEN.items()
        for name in (f"{api}Request", f"{api}Response")
    ]


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
    (flexible,) = {definition.flexible for definition in releases.values()}
    head = f"{number} {name}{_valid_words(releases)}{flexible}{_bounds(known, list(Release))}"
    lines = {release: definition.lines(every) for release, definition in releases.items()}
    return "\n".join([head, *_merged_text(lines, "  ")])


def spoken_text(versions: Versions, name: str, releases: ByRelease) -> str:
    """Write a request or response as the newest release has it that still knows all these versions."""
    definition = [one for one in releases.values() if _covers(one.valid, versions)][-1]
    head = f"{definition.number} {name}{_range_word(versions)}{definition.flexible}"
    return "\n".join([head, *_plain_text(definition.lines(versions), "  ")])


def _covers(valid: Versions, versions: Versions) -> bool:
    return valid.low <= versions.low and versions.high <= valid.high


def _valid_words(releases: ByRelease) -> str:
    words, last = "", Versions(0, 0)
    for release, definition in releases.items():
        if definition.valid != last and not words:
            words = _range_word(definition.valid) if release == min(releases) else " v0"
        if definition.valid != last and release != min(releases):
            words += f"{_range_word(definition.valid)} from {release.label}"
        last = definition.valid
    return words


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


# --- the files ----------------------------------------------------------------------------------------


def generated_files() -> dict[Path, str]:
    """Every file that is written here, with its text."""
    records = {topic: numbered(artifact) for topic, artifact in TOPICS.items()}
    records |= {"control": chosen(CONTROL), "consumer_protocol": chosen(CONSUMER_PROTOCOL)}
    files = {
        SCHEMA_TABLES / f"{name}.py": _module([record_text(*message) for message in messages])
        for name, messages in records.items()
    }
    files[PROTOCOL_TABLE] = _module([spoken_text(*message) for message in spoken_messages()])
    return files


def _module(messages: list[str]) -> str:
    return '"""Written by `make schemas` from the definitions in Kafka\'s jars."""\n\n' + (
        'TABLE = """\n' + "\n".join(messages) + '\n"""\n'
    )


def main() -> None:
    """Write what has changed, and name it."""
    for path, text in generated_files().items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
