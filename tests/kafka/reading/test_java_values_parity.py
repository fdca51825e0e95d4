"""Our texts of doubles and of malformed UTF-8 against those of a JVM of version 17."""

from __future__ import annotations

import random
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkatool.format.java_values import java_double, java_hash, java_utf8
from tests.kafka import peers

pytestmark = pytest.mark.peer

_SOURCE = Path(__file__).parents[1] / "java" / "TextOfValues.java"
# Lead, continuation and impossible bytes at the edges of their ranges; no line ends.
_BYTES = bytes.fromhex("41 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f4 f5 f7 f8 ff")


def _ask(lines: list[str]) -> list[str]:
    command = [peers.require_java(), "-XX:TieredStopAtLevel=1", str(_SOURCE)]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, encoding="utf-8", check=True)
    return done.stdout.split("\n")[:-1]


def _doubles(rng: random.Random) -> Iterator[float]:
    for _ in range(6000):
        yield struct.unpack(">d", rng.randbytes(8))[0]
        yield rng.randrange(100000) / 100
        yield 2.0 ** rng.randrange(-1070, 1020)
        yield float(rng.randrange(1 << 63))
        yield rng.randrange(1000000) * 10.0 ** rng.randrange(-20, 20)
        yield struct.unpack(">d", (rng.randrange(1 << 63) >> rng.randrange(11, 63)).to_bytes(8, "big"))[0]


def test_doubles_read_as_in_a_jvm() -> None:
    values = list(_doubles(random.Random(6)))
    answers = _ask([f"double {struct.pack('>d', value).hex()}" for value in values])
    for value, answer in zip(values, answers, strict=True):
        assert java_double(value) == answer.partition(" ")[2], value.hex()


def test_bytes_read_and_hash_as_in_a_jvm() -> None:
    rng = random.Random(7)
    values = [bytes(rng.choices(_BYTES, k=rng.randrange(1, 9))) for _ in range(30000)]
    answers = _ask([f"utf8 {value.hex()}" for value in values])
    for value, answer in zip(values, answers, strict=True):
        text = java_utf8(value)
        assert f"{java_hash(text)} {text}" == answer, value.hex()
