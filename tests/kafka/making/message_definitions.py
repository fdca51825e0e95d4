"""Kafka's own definitions of its messages, out of its jars and in our notation.

A definition is JSON with comments; `Definition.lines` says it as `kafkatool/format/schema/notation.py` would.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kafkatool.format.schema.notation import ANY_VERSION, Versions

_FOLDERS = ("common/message/", "common/metadata/", "message/")
_STRING_OR_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*')
_NONE = Versions(1, 0)
_ZEROS = ("", "0", "false", "0.0")


class Line(NamedTuple):
    """A line of the notation, and those that are indented below it."""

    text: str
    children: tuple[Line, ...] = ()


@dataclass(frozen=True)
class Definition:
    """A message as one release defines it; the key belongs to the records of coordinators."""

    value: dict[str, Any]
    key: dict[str, Any] | None = None

    @property
    def number(self) -> int | None:
        """The record type or api key. Before 4.1 the version of a key was the type of the record."""
        if self.key is None:
            return self.value.get("apiKey")
        number: int = self.key.get("apiKey", _versions(self.key["validVersions"]).high)
        return number

    @property
    def valid(self) -> Versions:
        return _versions(self.value["validVersions"])

    @property
    def flexible(self) -> str:
        """The words for the first flexible version."""
        first = _versions(self.value["flexibleVersions"])
        if first == _NONE:
            return " rigid"
        return f" flexible {first.low}" if first.low else ""

    def lines(self, spoken: Versions) -> tuple[Line, ...]:
        """Tell the key, the fields and the shared structs, as far as these versions have them."""
        key = [] if self.key is None else [_key_line(self.key)]
        structs = (
            Line(f"struct {struct['name']}", _fields(struct["fields"], spoken))
            for struct in self.value.get("commonStructs", ())
        )
        used = (struct for struct in structs if struct.children)
        return (*key, *_fields(self.value["fields"], spoken), *used)


def read_definitions(jars: Iterable[Path]) -> dict[str, dict[str, Definition]]:
    """Read all jars of a release: artifact, then message. A key and its value are one message."""
    found = {}
    for jar in jars:
        artifact = re.sub(r"-[\d.]+\.jar$", "", jar.name)
        if artifact.startswith("kafka") and (messages := {one["name"]: one for one in _read_jar(jar)}):
            found[artifact] = dict(_paired(messages))
    return found


def _read_jar(jar: Path) -> Iterator[dict[str, Any]]:
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.startswith(_FOLDERS) and name.endswith(".json"):
                # Jackson lets comments be; json does not.
                text = _STRING_OR_COMMENT.sub(lambda match: match[1] or "", archive.read(name).decode())
                yield json.loads(text)


def _paired(messages: dict[str, dict[str, Any]]) -> Iterator[tuple[str, Definition]]:
    for name, value in messages.items():
        stem = name.removesuffix("Value")
        if name.endswith("Value") and f"{stem}Key" in messages:
            yield stem, Definition(value, messages[f"{stem}Key"])
        elif f"{name.removesuffix('Key')}Value" not in messages:
            yield name, Definition(value)


def _key_line(key: dict[str, Any]) -> Line:
    if key["flexibleVersions"] != "none":
        raise ValueError(f"{key['name']} is flexible: our notation knows no such key")
    # Up to 4.0 the versions of a key are those of the record types that have it.
    fields = _fields(key["fields"], _versions(key["validVersions"]))
    return Line("key: " + ", ".join(field.text for field in fields))


def _fields(fields: Iterable[dict[str, Any]], spoken: Versions) -> tuple[Line, ...]:
    return tuple(_field(field, spoken) for field in fields if _meet(_field_versions(field), spoken))


def _field(field: dict[str, Any], spoken: Versions) -> Line:
    if "flexibleVersions" in field:
        raise ValueError(f"{field['name']} is flexible by its own rule: our notation has no word for it")
    versions = _field_versions(field)
    kind: str = field["type"]
    null = "?" if _meet(_versions(field.get("nullableVersions", "none")), spoken) else ""
    words = [field["name"][0].lower() + field["name"][1:], kind + null]
    words += [*_version_words(versions, spoken), *_tag_words(field, versions, spoken), *_default_words(field)]
    inner = Versions(max(versions.low, spoken.low), min(versions.high, spoken.high))
    return Line(" ".join(words), _fields(field.get("fields", ()), inner))


def _field_versions(field: dict[str, Any]) -> Versions:
    return _versions(field.get("versions", field.get("taggedVersions", "none")))


def _version_words(versions: Versions, spoken: Versions) -> list[str]:
    """Name the versions of a field; a bound that none of the spoken versions breaks is left out."""
    low = versions.low if versions.low > spoken.low else 0
    if versions.high >= spoken.high:
        return [f"v{low}+"] if low else []
    return [f"v{low}" if low == versions.high else f"v{low}-{versions.high}"]


def _tag_words(field: dict[str, Any], versions: Versions, spoken: Versions) -> list[str]:
    tagged = _versions(field.get("taggedVersions", "none"))
    if not _meet(tagged, spoken):
        return []
    if _version_words(tagged, spoken) != _version_words(versions, spoken):
        raise ValueError(f"{field['name']} has its tag in some versions only: our notation cannot say that")
    return ["tag", str(field["tag"])]


def _default_words(field: dict[str, Any]) -> list[str]:
    """Name a default that is not the zero of the type. For Kafka's generator a bare JSON null is none."""
    default = field.get("default")
    text = "" if default is None else str(default).lower()
    if text.startswith("0x"):
        text = str(int(text, 16))
    return [] if text in _ZEROS else ["=", text]


def _versions(text: str) -> Versions:
    if text == "none":
        return _NONE
    low, dash, high = text.removesuffix("+").partition("-")
    if text.endswith("+"):
        return Versions(int(low), ANY_VERSION)
    return Versions(int(low), int(high) if dash else int(low))


def _meet(one: Versions, other: Versions) -> bool:
    return max(one.low, other.low) <= min(one.high, other.high)
