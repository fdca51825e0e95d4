"""Our tables of messages are what the releases of Kafka define."""

from __future__ import annotations

from typing import Any

import pytest

from kafkatool.format.release import Release
from kafkatool.format.schema.notation import Versions
from tests.kafka import make_schemas, peers
from tests.kafka.making import message_choice as choice
from tests.kafka.making.message_changes import changes_page
from tests.kafka.making.message_definitions import Definition
from tests.kafka.making.message_tables import protocol_definition, record_text


@pytest.fixture
def releases() -> None:
    for version in peers.RELEASES:
        peers.require_kafka(version)


@pytest.mark.peer
@pytest.mark.usefixtures("releases")
def test_the_tables_are_those_of_the_jars() -> None:
    written = make_schemas.table_modules()
    for path, text in written.items():
        assert path.read_text() == text, f"{path.name}: if this is right: make schemas"
    others = {path for path in make_schemas.SCHEMA_TABLES.glob("*.py") if path.name != "__init__.py"}
    assert others <= written.keys()


@pytest.mark.peer
@pytest.mark.usefixtures("releases")
def test_the_page_of_changes_is_that_of_the_jars() -> None:
    peers.require_clients(peers.NEXT_CLIENTS)
    assert make_schemas.CHANGES.read_text() == changes_page(), "if this is right: make schemas"


@pytest.mark.peer
@pytest.mark.usefixtures("releases")
@pytest.mark.parametrize("version", peers.RELEASES)
def test_what_is_spoken_is_the_same_in_every_release(version: str) -> None:
    for name, definition in choice.client_messages(choice.spoken_names(), version).items():
        ours, spoken = protocol_definition(name)
        for number in range(max(spoken.low, definition.valid.low), spoken.high + 1):
            one = Versions(number, number)
            assert definition.lines(one) == ours.lines(one), (name, number)


# --- the merging, without any jar ---------------------------------------------------------------------


def _definition(*fields: str, **more: Any) -> Definition:
    """A message with fields such as `one int32`."""
    known = [dict(zip(("name", "type"), field.split(), strict=True), versions="0+") for field in fields]
    return Definition({"validVersions": "0", "flexibleVersions": "0+", "fields": known, **more})


def _merged(*definitions: Definition) -> list[str]:
    return record_text(7, "Some", dict(zip(Release, definitions, strict=False))).splitlines()


def test_a_field_comes_and_another_goes() -> None:
    old, new = _definition("one int32", "two int8"), _definition("one int32", "new int64", "three int8")
    assert _merged(old, old, new, new, new) == [
        "7 Some",
        "  one int32",
        "  two int8 until 4.0",
        "  new int64 since 4.1",
        "  three int8 since 4.1",
    ]


def test_fields_that_change_places_are_other_fields() -> None:
    old, new = _definition("one int32", "two int8"), _definition("two int8", "one int32")
    assert _merged(old, old, old, old, new) == [
        "7 Some",
        "  two int8 since 4.3",
        "  one int32",
        "  two int8 until 4.2",
    ]


def test_versions_rise_and_a_message_ends() -> None:
    old, new = _definition(), _definition(validVersions="0-2")
    assert _merged(old, old, new, new) == ["7 Some v0 v0-2 from 4.1 until 4.2"]


def test_what_the_notation_cannot_say_is_refused() -> None:
    field = {"name": "One", "type": "int8", "versions": "0+", "taggedVersions": "1+", "tag": 0}
    half = _definition(fields=[field], validVersions="0-1")
    with pytest.raises(ValueError, match="in some versions only"):
        _merged(half)
    some, none = _definition("one int8"), _definition()
    with pytest.raises(ValueError, match="come back"):
        _merged(some, none, some)
    with pytest.raises(ValueError, match="flexible"):
        _merged(_definition(), _definition(flexibleVersions="none"))
