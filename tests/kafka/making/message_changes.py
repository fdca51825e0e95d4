"""`docs/message-changes.md`: what each release of Kafka changed in the messages that we read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from kafkatool.format.schema.notation import Versions
from tests.kafka import peers
from tests.kafka.making import message_choice as choice
from tests.kafka.making.message_choice import Messages
from tests.kafka.making.message_definitions import Definition, Line

_INTRO = """\
# What changed in Kafka's messages

What each release of Kafka changed in the messages that kafkatool reads or sends, according to Kafka's jars.
`make schemas` writes this page; do not edit it.

Fields are written as in kafkatool's tables: `v4+` from that version of the message on, `tag 0` a tagged
field, `?` may be null, `= -1` the default value; `Voter.voterId` is a field of the struct `Voter`. Fields
that disappeared together with the versions that had them are not listed. All versions of requests and
responses are compared, though `kafkatool serve` speaks only older ones.
"""
_NEXT = """\
Only the clients of this release are published; changes of the records of internal topics are not known yet.
kafkatool does not support this release: it reads and speaks the one before.
"""

Fields = dict[str, str]
"""The fields of a struct by name, in their order; the rest of the line for each."""


def changes_page() -> str:
    """Write the page."""
    parts = [_INTRO]
    for old, new in pairwise(peers.RELEASES):
        parts.append(f"## {_label(new)}\n")
        parts += _sections(_groups(old), _groups(new))
    new, profile = peers.NEXT_CLIENTS, peers.CLIENTS
    parts += [f"## {_label(new)}\n", _NEXT]
    parts += _sections(_client_groups(peers.NEWEST), _client_groups(new, profile))
    return "\n".join(parts)


def _label(version: str) -> str:
    return version.rpartition(".")[0]


def _groups(version: str) -> dict[str, Messages]:
    topics = {f"`__{topic}`": choice.topic_records(topic, version) for topic in choice.TOPICS}
    return {**topics, **_client_groups(version)}


def _client_groups(version: str, profile: str = "release") -> dict[str, Messages]:
    groups = {
        "Control records": list(choice.CONTROL.values()),
        "What members of a classic group say": list(choice.CONSUMER_PROTOCOL.values()),
        "Requests and responses": choice.spoken_names(),
    }
    return {title: choice.client_messages(names, version, profile) for title, names in groups.items()}


def _sections(old: dict[str, Messages], new: dict[str, Messages]) -> Iterator[str]:
    """Tell what changed, group by group; a group without a change is named with the others."""
    same = []
    for title in new:
        if changes := list(_message_changes(old[title], new[title])):
            yield f"**{title}**\n\n" + "\n".join(changes) + "\n"
        else:
            same.append(title)
    if same:
        yield f"Nothing changed in: {', '.join(same)}.\n"


def _message_changes(old: Messages, new: Messages) -> Iterator[str]:
    names = sorted(old | new, key=lambda name: (new.get(name) or old[name]).number or 0)
    for name in names:
        if name not in old:
            yield f"- `{name}` is new"
        elif name not in new:
            yield f"- `{name}` is gone"
        else:
            yield from (f"- `{name}`: {change}" for change in _changes(old[name], new[name]))


def _changes(old: Definition, new: Definition) -> Iterator[str]:
    if old.valid != new.valid:
        yield f"versions {_range(old.valid)}, now {_range(new.valid)}"
    if old.flexible != new.flexible:
        yield f"`{old.flexible.strip()}`, now `{new.flexible.strip()}`"
    # From the first version that both have on: below it there is nothing left to compare.
    spoken = Versions(max(old.valid.low, new.valid.low), max(old.valid.high, new.valid.high))
    before, after = _structs(old.lines(spoken)), _structs(new.lines(spoken))
    for struct in after:
        if struct in before:  # of a struct that is new the field is told that it is the type of
            yield from _field_changes(f"{struct}." if struct else "", before[struct], after[struct])


def _range(versions: Versions) -> str:
    return f"{versions.low}" if versions.low == versions.high else f"{versions.low}-{versions.high}"


def _structs(lines: tuple[Line, ...], name: str = "") -> dict[str, Fields]:
    """The fields of each struct, wherever it is defined; those of the message itself under the empty name."""
    found: dict[str, Fields] = {name: {}}
    for line in lines:
        first, _, rest = line.text.partition(" ")
        if first == "struct":
            found |= _structs(line.children, rest)
            continue
        found[name][first] = rest
        if line.children:
            found |= _structs(line.children, rest.split()[0].strip("[]?"))
    return found


def _field_changes(where: str, old: Fields, new: Fields) -> Iterator[str]:
    for name in old | new:
        if name not in old:
            yield f"`{where}{name} {new[name]}` is new"
        elif name not in new:
            yield f"`{where}{name} {old[name]}` is gone"
        elif old[name] != new[name]:
            yield f"`{where}{name} {old[name]}`, now `{new[name]}`"
    if [name for name in old if name in new] != [name for name in new if name in old]:
        yield f"the fields of `{where.rstrip('.') or 'the message'}` are in another order"
