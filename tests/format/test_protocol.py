"""The wire protocol without sockets: any bytes, in any pieces, are requests or a FormatError."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkatool.errors import FormatError
from kafkatool.format.protocol.apis import API_VERSIONS, APIS, BY_NAME, Api
from kafkatool.format.protocol.frames import (
    BadFrame,
    Frames,
    UnknownApi,
    read_request,
    read_response,
    write_request,
    write_response,
)
from kafkatool.format.schema.layout import Layout, Slot
from kafkatool.format.schema.writing import is_bytes

EVERY_VERSION = [
    (api, version) for api in APIS.values() for version in range(api.versions.low, api.versions.high + 1)
]
every_version = pytest.mark.parametrize(
    ("api", "version"), EVERY_VERSION, ids=[f"{api.name}-{version}" for api, version in EVERY_VERSION]
)

_NUMBERS = {"bool": 0, "int8": 7, "int16": 15, "int32": 31, "int64": 63}


def _values(slot: Slot) -> st.SearchStrategy[Any]:
    field, kind = slot.field, slot.field.kind
    value: st.SearchStrategy[Any]
    if slot.layout is not None:
        value = trees(slot.layout)
    elif kind == "bool":
        value = st.booleans()
    elif kind in _NUMBERS:
        bits = _NUMBERS[kind]
        value = st.integers(-(1 << bits), (1 << bits) - 1)
    else:
        value = st.text(max_size=5) if kind == "string" else st.binary(max_size=9)
    if field.array:
        value = st.lists(value, max_size=2)
    return st.none() | value if field.nullable else value


def trees(layout: Layout) -> st.SearchStrategy[dict[str, Any]]:
    """Any message of a layout."""
    return st.fixed_dictionaries({slot.name: _values(slot) for slot in layout.slots})


@every_version
@settings(max_examples=5)
@given(data=st.data())
def test_every_request_reads_back_as_it_was_written(api: Api, version: int, data: st.DataObject) -> None:
    body = data.draw(trees(api.request_layout(version)))
    request = read_request(write_request(api, version, 7, "me", body)[4:])
    assert (request.api, request.version, request.correlation_id, request.client_id) == (
        api,
        version,
        7,
        "me",
    )
    assert request.body == body


@every_version
@settings(max_examples=5)
@given(data=st.data())
def test_every_response_reads_back_as_it_was_written(api: Api, version: int, data: st.DataObject) -> None:
    body = data.draw(trees(api.response_layout(version)))
    request = read_request(write_request(api, version, 9, None, {})[4:])
    pieces = write_response(request, body)
    frame = b"".join(piece for piece in pieces if is_bytes(piece))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert read_response(api, version, frame[4:]) == (9, body)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_a_format_error(frame: bytes) -> None:
    with suppress(FormatError):
        read_request(frame)


@given(st.sampled_from(EVERY_VERSION), st.binary(max_size=120))
def test_any_body_behind_a_good_head_is_a_request_or_a_format_error(
    which: tuple[Api, int], body: bytes
) -> None:
    api, version = which
    head = write_request(api, version, 1, None, {})[4:14]
    with suppress(FormatError):
        read_request(head + body)


@given(st.data())
def test_a_request_cut_anywhere_is_a_format_error_or_shorter(data: st.DataObject) -> None:
    api, version = data.draw(st.sampled_from(EVERY_VERSION))
    whole = write_request(api, version, 1, "me", data.draw(trees(api.request_layout(version))))[4:]
    with suppress(FormatError):
        read_request(whole[: data.draw(st.integers(0, len(whole)))])


@given(st.lists(st.binary(max_size=50), max_size=6), st.data())
def test_any_chunking_of_the_same_bytes_yields_the_same_frames(
    bodies: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
    frames, found, at = Frames(64), [], 0
    while at < len(stream):
        step = data.draw(st.integers(1, 20))
        frames.feed(stream[at : at + step])
        at += step
        while (frame := frames.next()) is not None:
            found.append(frame)
    assert found == bodies
    assert frames.is_empty


@pytest.mark.parametrize(
    ("front", "words"),
    [
        (b"\x16\x03\x01\x02", "TLS handshake"),
        (b"GET ", "HTTP"),
        (b"\xff\xff\xff\xff", "-1"),
        (b"\x7f\xff\xff\xff", "2147483647"),
    ],
)
def test_a_size_that_cannot_be_is_told_by_what_it_looks_like(front: bytes, words: str) -> None:
    frames = Frames(1000)
    frames.feed(front)
    with pytest.raises(BadFrame, match=words):
        frames.next()


def test_a_count_that_cannot_be_is_refused_before_anything_is_allocated() -> None:
    head = write_request(BY_NAME["metadata"], 8, 1, None, {"topics": []})[4:14]
    with pytest.raises(FormatError, match="2147483647"):
        read_request(head + b"\x7f\xff\xff\xff" + bytes(20))


def test_an_unknown_version_of_api_versions_is_answered_in_the_oldest_layout() -> None:
    frame = write_request(API_VERSIONS, 0, 5, None, {})[4:]
    request = read_request(frame[:2] + b"\x00\x63" + frame[4:])
    assert not request.is_spoken
    (answer,) = write_response(request, {})
    assert answer == bytes.fromhex("00000010 00000005 0023 00000001 0012 0000 0004")


@pytest.mark.parametrize("head", ["0001 0000", "0001 0063", "0063 0000", "ffff 0000", "0001 ffff"])
def test_other_unknown_apis_and_versions_are_told(head: str) -> None:
    with pytest.raises(UnknownApi):
        read_request(bytes.fromhex(head + "00000001 ffff"))


class _Slice(NamedTuple):
    size: int


def test_records_that_stay_in_their_file_are_a_piece_between_bytes() -> None:
    """Captured from a broker's answer: version 11, topic "comp", 178 bytes of records."""
    request = read_request(write_request(BY_NAME["fetch"], 11, 7, None, {})[4:])
    row = {
        "partitionIndex": 0,
        "highWatermark": 50,
        "lastStableOffset": 50,
        "logStartOffset": 0,
        "abortedTransactions": [],
        "records": _Slice(178),
    }
    head, records = write_response(request, {"responses": [{"topic": "comp", "partitions": [row]}]})
    assert records == _Slice(178)
    assert head == bytes.fromhex(
        "000000f8 00000007 00000000 0000 00000000 00000001 0004 636f6d70 00000001"
        "00000000 0000 0000000000000032 0000000000000032 0000000000000000 00000000 ffffffff 000000b2"
    )


def test_the_table_is_the_one_that_all_clients_can_do_with() -> None:
    spoken = {api.name: tuple(api.versions) for api in APIS.values()}
    assert spoken == {
        "produce": (3, 8),
        "fetch": (4, 11),
        "list_offsets": (1, 7),
        "metadata": (0, 8),
        "offset_commit": (2, 7),
        "offset_fetch": (1, 5),
        "find_coordinator": (0, 2),
        "join_group": (0, 5),
        "heartbeat": (0, 3),
        "leave_group": (0, 3),
        "sync_group": (0, 3),
        "describe_groups": (0, 4),
        "list_groups": (0, 2),
        "sasl_handshake": (0, 1),
        "api_versions": (0, 4),
        "describe_configs": (0, 3),
        "sasl_authenticate": (0, 1),
        "describe_cluster": (0, 1),
    }
