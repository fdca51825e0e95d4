"""The fields of one message in one version and release: which there are, where, and their defaults.

Every version has a layout, as in Kafka's generated readers, which do not check whether they know it: a
version above the known ones is read as the newest.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache

from kafkatool.format.release import NEWEST, Release
from kafkatool.format.schema.notation import ANY_VERSION, Field, Message, Struct, Versions

Tree = dict[str, object]

UNKNOWN_TAGS = "unknownTags"


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """A field as this version has it."""

    name: str
    field: Field
    layout: Layout | None
    default: object

    def new(self) -> object:
        """Return the default for a missing field; lists and dicts are fresh copies."""
        return deepcopy(self.default) if isinstance(self.default, (list, dict)) else self.default


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    name: str
    version: int
    flexible: bool
    slots: tuple[Slot, ...]  # all, in the order Kafka names them
    positional: tuple[Slot, ...]
    tagged: dict[int, Slot]
    refused_tags: frozenset[int]  # known, but not in this version
    refused: bool  # Kafka does not read this struct in this version

    def new(self) -> Tree:
        """Return a message of defaults only."""
        return {slot.name: slot.new() for slot in self.slots}


@lru_cache(maxsize=1024)
def value_layout(message: Message, version: int, release: Release = NEWEST) -> Layout:
    """Lay out the message, or the value of a record."""
    valid = message.valid(release)
    first = message.first_flexible
    flexible = first is not None and _holds(version, Versions(first, ANY_VERSION), valid)
    return _plan(message.value, version, release, valid, flexible)


@lru_cache(maxsize=256)
def key_layout(message: Message) -> Layout:
    """Lay out the key of a record; it has one version and no tags."""
    return _plan(message.key, 0, NEWEST, Versions(0, 0), False)


def _plan(struct: Struct, version: int, release: Release, valid: Versions, flexible: bool) -> Layout:
    known = [field for field in struct.fields if field.since <= release <= field.until]
    present = [field for field in known if _holds(version, field.versions, valid)]
    slots = tuple(_slot(field, version, release, valid, flexible) for field in present)
    tags = frozenset(field.tag for field in known if field.tag is not None)
    tagged = {slot.field.tag: slot for slot in slots if slot.field.tag is not None}
    return Layout(
        name=struct.name,
        version=version,
        flexible=flexible,
        slots=slots,
        positional=tuple(slot for slot in slots if slot.field.tag is None),
        tagged=tagged,
        refused_tags=tags - frozenset(tagged),
        refused=struct.checked and version > valid.high,
    )


def _slot(field: Field, version: int, release: Release, valid: Versions, flexible: bool) -> Slot:
    layout = _plan(field.struct, version, release, valid, flexible) if field.struct else None
    default = layout.new() if layout and not field.array else field.default
    return Slot(field.name, field, layout, default)


def _holds(version: int, wanted: Versions, valid: Versions) -> bool:
    """Return whether `wanted` includes a version; like Kafka, skip a bound that no valid version breaks."""
    above = wanted.low <= valid.low or version >= wanted.low
    return above and (wanted.high >= valid.high or version <= wanted.high)
