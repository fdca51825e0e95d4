"""Damage files as disks and people do."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path


def flipped(raw: bytes, byte: int, bit: int = 0) -> bytes:
    changed = bytearray(raw)
    changed[byte] ^= 1 << bit
    return bytes(changed)


def flip(path: Path, byte: int, bit: int = 0) -> None:
    """Flip one bit of a file; a negative byte counts from its end."""
    path.write_bytes(flipped(path.read_bytes(), byte, bit))


def change(path: Path, edit: Callable[[bytearray], None]) -> None:
    """Edit a file's content."""
    data = bytearray(path.read_bytes())
    edit(data)
    path.write_bytes(data)


def put(path: Path, position: int, new: bytes) -> None:
    """Overwrite bytes of a file."""
    data = path.read_bytes()
    path.write_bytes(data[:position] + new + data[position + len(new) :])


def mutated(chance: random.Random, content: bytes, otherwise: Callable[[bytearray, int], None]) -> bytes:
    """Flip bits, truncate, punch a hole, write zeros, repeat a piece; or do `otherwise` at some byte."""
    raw = bytearray(content)
    a, b = sorted(chance.sample(range(len(raw) + 1), 2))
    match chance.randrange(6):
        case 0:
            for _ in range(chance.randrange(1, 5)):
                raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        case 1:
            del raw[b:]
        case 2:
            del raw[a:b]
        case 3:
            raw[a:b] = bytes(b - a)
        case 4:
            raw[b:b] = raw[a:b]
        case _:
            otherwise(raw, a)
    return bytes(raw)
