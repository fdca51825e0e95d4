"""What disks and people do to files."""

from __future__ import annotations

import random
from collections.abc import Callable


def mutated(chance: random.Random, content: bytes, otherwise: Callable[[bytearray, int], None]) -> bytes:
    """Bits flipped, an end cut off, a hole, zeros, a piece twice; or what `otherwise` does at some byte."""
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
