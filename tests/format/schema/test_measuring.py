"""What is said of a message's memory before it is read is never less than what reading it then takes."""

from __future__ import annotations

import tracemalloc

import pytest

from kafkatool.errors import FormatError
from kafkatool.format.protocol.apis import APIS, BY_NAME, Api
from kafkatool.format.protocol.frames import read_request, write_request
from kafkatool.format.schema.layout import Layout, Tree

VERSIONS = [(api, version) for api in APIS.values() for version in {api.versions.low, api.versions.high}]


def many(layout: Layout, count: int, text: str) -> Tree:
    """Every array with so many elements, and every text this one."""
    tree: Tree = {}
    for slot in layout.positional:
        one: object = 70_000
        if slot.layout is not None:
            one = many(slot.layout, 3, text)
        elif slot.field.kind == "string":
            one = text
        elif slot.field.kind in ("bytes", "records"):
            one = text.encode()
        elif slot.field.kind in ("bool", "int8", "int16"):
            one = 1
        tree[slot.name] = [one] * count if slot.field.array else one
    return tree


@pytest.mark.parametrize(("api", "version"), VERSIONS, ids=lambda one: getattr(one, "name", one))
@pytest.mark.parametrize(
    "text", ["", "orders", "é" * 500, "\U0001f600" * 99], ids=["empty", "short", "latin", "wide"]
)
def test_a_request_takes_no_more_than_was_claimed_for_it(api: Api, version: int, text: str) -> None:
    frame = write_request(api, version, 1, "me", many(api.request_layout(version), 400, text))[4:]
    claimed: list[int] = []
    read_request(frame, claimed.append)  # whatever is cached is so from now on
    tracemalloc.start()
    try:
        request = read_request(frame, claimed.append)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert request.body is not None
    assert taken < (claimed[-1] if len(frame) > 256 else 0) + (32 << 10)


def test_more_tagged_fields_or_elements_than_a_broker_takes_are_refused_before_they_are_read() -> None:
    frame = write_request(BY_NAME["metadata"], 8, 1, None, {"topics": []})[4:]
    long = frame[:10] + (1_000_001).to_bytes(4, "big") + bytes(2_000_010)
    with pytest.raises(FormatError, match="at most 1000000 elements, found 1000001"):
        read_request(long)
    tagged = write_request(BY_NAME["list_offsets"], 7, 1, None, {"topics": []})[4:-1]
    with pytest.raises(FormatError, match="0 to 10000, found 10001"):
        read_request(tagged + b"\x91\x4e" + bytes(20_002))
