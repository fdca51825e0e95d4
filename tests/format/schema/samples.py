"""Records of every type and version, drawn at random, and the same with damage."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple

from kafkatool.format.release import Release
from kafkatool.format.schema import Decoder
from kafkatool.format.schema.coordinator import Coordinator
from kafkatool.format.schema.framed import Framed
from kafkatool.format.schema.layout import Layout, Slot, Tree, key_layout, value_layout
from kafkatool.format.uuids import uuid_text

_MODULES = {
    Decoder.OFFSETS: "consumer_offsets",
    Decoder.TRANSACTION_LOG: "transaction_state",
    Decoder.CLUSTER_METADATA: "cluster_metadata",
    Decoder.REMOTE_LOG_METADATA: "remote_log_metadata",
    Decoder.SHARE_GROUP_STATE: "share_group_state",
}
_TEXTS = (
    "",
    "g",
    "consumer",
    "a b",
    'q"uo\\te',
    "\t\x00\x1b\x7f",
    "é日本",
    "\U0001f600",
    "x" * 200,
    "\\u001b",
)
_WIDTHS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


class Sample(NamedTuple):
    key: bytes | None
    value: bytes | None


def topic(decoder: Decoder) -> Coordinator | Framed:
    found: Coordinator | Framed = import_module(f"kafkatool.format.schema.{_MODULES[decoder]}").TOPIC
    return found


def samples(decoder: Decoder, release: Release, rounds: int, rng: random.Random) -> Iterator[Sample]:
    """Every type in every version that the release knows, `rounds` times over, each whole and damaged."""
    for _ in range(rounds):
        for sample in _whole(decoder, release, rng):
            yield sample
            yield _damaged(sample, rng)
    yield from _oddities(decoder)


def _whole(decoder: Decoder, release: Release, rng: random.Random) -> Iterator[Sample]:
    of = topic(decoder)
    for message in of.messages:
        if not message.known_to(release):
            continue
        for version in range(message.valid(release).high + 1):
            tree = random_tree(value_layout(message, version, release), rng)
            key = None if isinstance(of, Framed) else random_tree(key_layout(message), rng)
            yield Sample(*of.encode(message.name, version, key, tree, release))
            if isinstance(of, Coordinator) and rng.random() < 0.2:
                yield Sample(*of.encode(message.name, version, key, None, release))


def _oddities(decoder: Decoder) -> Iterator[Sample]:
    if decoder in (Decoder.CLUSTER_METADATA, Decoder.REMOTE_LOG_METADATA):
        yield Sample(b"k", None)
        for head in (
            "",
            "00",
            "02",
            "01",
            "0114",
            "011400",
            "01140000",
            "0114000000",
            "017f0000",
            "01ffff0300",
        ):
            yield Sample(None, bytes.fromhex(head))
        for head in (
            "ff",
            "808004",
            "ffffffffff",
            "8180808008",
            "01ffffffffff",
            "0114ffffffff0f00",
            "010006",
        ):
            yield Sample(None, bytes.fromhex(head) + bytes(40))
        return
    for number in (-32768, -1, 0, 1, 2, 3, 9, 15, 16, 17, 18, 24, 32767):
        yield Sample(struct.pack(">h", number), b"")
        yield Sample(struct.pack(">h", number) + b"\x00\x01g\x00\x01t" + bytes(40), None)
        for version in (-1, 0, 1, 5, 300):
            value = struct.pack(">h", version) + bytes(60)
            yield Sample(struct.pack(">h", number) + b"\x00\x01g\x00\x01t" + bytes(40), value)
    yield Sample(b"", None)
    yield Sample(b"\x00", b"\x00")


def _damaged(sample: Sample, rng: random.Random) -> Sample:
    if sample.key is not None and (sample.value is None or rng.random() < 0.15):
        return Sample(_damage(sample.key, rng), sample.value)
    return Sample(sample.key, None if sample.value is None else _damage(sample.value, rng))


def _damage(raw: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(raw) + 1)
    how = rng.randrange(5)
    if how == 0:
        return raw[:at]
    if how == 1:
        return raw[:at] + bytes([rng.randrange(256)]) + raw[at + 1 :]
    if how == 2:
        return raw[:at] + rng.randbytes(rng.randrange(1, 6)) + raw[at:]
    if how == 3:
        return (
            raw[:at]
            + rng.choice((b"\xff", b"\xff\xff\xff\xff\x07", b"\x80\x80\x02", b"\x00"))
            + raw[at + 1 :]
        )
    return raw + rng.choice((b"\x00", b"\x01\x63\x02hi", rng.randbytes(3)))


def random_tree(layout: Layout, rng: random.Random) -> Tree:
    """Values for every field: small and extreme numbers, odd texts, defaults, nulls, unknown tags."""
    tree: Tree = {}
    for slot in layout.slots:
        if slot.field.tag is not None and rng.random() < 0.3:
            tree[slot.name] = slot.new()
        else:
            tree[slot.name] = _random_field(slot, rng)
    if layout.flexible and rng.random() < 0.1:
        tree["unknownTags"] = [{"tag": 99, "data": rng.randbytes(rng.randrange(4))}]
    return tree


def _random_field(slot: Slot, rng: random.Random) -> object:
    if slot.field.nullable and rng.random() < 0.25:
        return None
    if slot.field.array:
        return [_random_value(slot, rng) for _ in range(rng.choice((0, 1, 1, 2, 3, 30)))]
    return _random_value(slot, rng)


def _random_value(slot: Slot, rng: random.Random) -> object:
    kind = slot.field.kind
    if slot.layout:
        return random_tree(slot.layout, rng)
    if kind in _WIDTHS:
        return _random_number(slot.name, _WIDTHS[kind], rng)
    if kind == "string":
        return rng.choice(_TEXTS)
    if kind == "bytes":
        return rng.choice((b"", _subscription(rng), _assignment(rng), rng.randbytes(rng.randrange(20))))
    if kind == "uuid":
        return uuid_text(rng.choice((bytes(16), rng.randbytes(16))))
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "float64":
        return rng.choice((0.0, -1.5, 1e7, 2.0**-44, 0.001, float("nan"), float("-inf"), rng.random() * 1e6))
    return rng.choice((0, 1, 2 ** (16 if kind == "uint16" else 32) - 1))


def _random_number(name: str, width: int, rng: random.Random) -> int:
    if name.lower().endswith(("status", "state", "version")):  # most other numbers are refused
        return rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 8))
    limit = 1 << (width - 1)
    return rng.choice((0, 1, -1, 7, limit - 1, -limit, rng.randrange(-limit, limit), rng.randrange(100)))


def _subscription(rng: random.Random) -> bytes:
    version = rng.randrange(-1, 6)
    body = struct.pack(">hi", version, 1) + b"\x00\x01t" + struct.pack(">i", -1)
    body += struct.pack(">i", 1) + b"\x00\x01t" + struct.pack(">iii", 2, 0, 1) if version >= 1 else b""
    body += struct.pack(">i", 5) if version >= 2 else b""
    return body + (b"\x00\x01r" if version >= 3 else b"")


def _assignment(rng: random.Random) -> bytes:
    body = struct.pack(">hi", rng.randrange(-1, 6), 1) + b"\x00\x01t" + struct.pack(">ii", 1, 3)
    return body + struct.pack(">i", 2) + b"ud"[: rng.randrange(3)]
