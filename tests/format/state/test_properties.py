from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.errors import FormatError
from kafkatool.format.state.properties import (
    MetaProperties,
    read_meta_properties,
    read_properties,
    write_meta_properties,
    write_properties,
)

# Half a surrogate pair is no character.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.binary(max_size=80) | st.text(alphabet="ab=: \t\f\n\r\\u0#!", max_size=40).map(str.encode))
def test_any_bytes_decode_or_raise_format_error(buf: bytes) -> None:
    for read in (read_properties, read_meta_properties):
        with suppress(FormatError):
            read(buf)


@given(st.dictionaries(texts, texts, max_size=6), st.lists(texts, max_size=2))
def test_properties_come_back_as_they_were_written(values: dict[str, str], comments: list[str]) -> None:
    assert read_properties(write_properties(values, comments)) == values


# Each was read by java.util.Properties of Java 17.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a : b ", {"a": "b "}),
        ("a = = b", {"a": "= b"}),
        ("  a", {"a": ""}),
        ("a=1\na=2", {"a": "2"}),
        ("#a=b\n ! a=b\r\n", {}),
        ("a=b\\\n   c", {"a": "bc"}),
        ("a=b\\\\\nc", {"a": "b\\", "c": ""}),
        ("a=b\\\n\nc", {"a": "b", "c": ""}),
        ("a=b\\\n#c", {"a": "b#c"}),
        ("\\\n#c", {}),
        ("\\", {"": ""}),
        ("\\\r\n", {}),
        ("a\\ b\\=c=d", {"a b=c": "d"}),
        ("a=\\u00e9\\t\\z\\ud83d\\ude00", {"a": "é\tz😀"}),
        ("log.dirs=/a,\\\r\n  /b", {"log.dirs": "/a,/b"}),
    ],
)
def test_a_text_is_read_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert read_properties(text.encode("latin-1")) == expected


def test_bytes_are_latin_1() -> None:
    assert read_properties(b"a=\xe9") == {"a": "é"}


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\u12g4", "\\u"])
def test_a_cut_unicode_escape_is_a_format_error(text: str) -> None:
    with pytest.raises(FormatError):
        read_properties(text.encode())


@pytest.mark.parametrize(
    "meta",
    [
        MetaProperties(1, "MkU3OEVBNTcwNTJENDM2Qg", 3, "AAAAAAAAAAAAAAAAAAAAZA"),
        MetaProperties(1, "any text", 3, None),
        MetaProperties(0, None, None, None),
        MetaProperties(0, "c", 7, None),
    ],
)
def test_meta_properties_come_back_as_they_were_written(meta: MetaProperties) -> None:
    assert read_meta_properties(write_meta_properties(meta, ["a comment"])) == meta


def test_each_version_has_its_own_name_for_the_node() -> None:
    assert read_meta_properties(b"broker.id=7\nnode.id=x\n").node_id == 7
    assert read_meta_properties(b"version= 1 \ncluster.id=c\nbroker.id=x\nnode.id=8\n").node_id == 8


@pytest.mark.parametrize(
    "text",
    [
        "version=2",
        "version=x",
        "version=1\nnode.id=1",
        "version=1\ncluster.id=c",
        "version=1\ncluster.id=c\nnode.id= 1 ",
        "broker.id=",
        "directory.id=short",
    ],
)
def test_meta_properties_that_a_broker_refuses_are_a_format_error(text: str) -> None:
    with pytest.raises(FormatError):
        read_meta_properties(text.encode())
