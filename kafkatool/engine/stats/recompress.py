"""Estimate how much disk space a sample of batches would take with other codecs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kafkatool.engine.batches.scan import DEFAULT_MAX_BATCH_SIZE
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.errors import FormatError, KafkatoolError
from kafkatool.format.batch import HEADER_SIZE, Codec, read_header
from kafkatool.format.compression import compress
from kafkatool.format.record import read_body

MOST_BYTES = 16 << 20
"""Limit for the decompressed records of the sample; the batch that reaches it is the last."""


@dataclass(frozen=True, slots=True)
class CodecChoice:
    """A codec, at the given level or Kafka's default."""

    codec: Codec
    level: int | None = None

    @property
    def label(self) -> str:
        return self.codec.label if self.level is None else f"{self.codec.label}:{self.level}"


@dataclass(slots=True)
class WhatIf:
    """The result for the batches of the sample with one choice."""

    choice: CodecChoice
    batches: int = 0
    stored: int = 0
    """Size of the batches as stored, in bytes."""
    inflated: int = 0
    """Size of the records without compression, in bytes."""
    size: int = 0
    """Size that the batches would have, in bytes."""
    seconds: float = 0.0
    """Time that compression took here."""


def what_if(
    places: Sequence[tuple[str, int, int]],
    choices: Sequence[CodecChoice],
    guest: Guest,
    clock: Callable[[], float],
) -> list[WhatIf]:
    """Compress batches, given by path, position and size, with every choice; skip unreadable batches."""
    results = [WhatIf(choice) for choice in choices]
    for choice in choices:
        compress(choice.codec, b"", level=choice.level)  # loads the library, which is not timed
    total = 0
    for stored, body in _bodies(places, guest):
        for result in results:
            began = clock()
            packed = compress(result.choice.codec, body, level=result.choice.level)
            result.seconds += clock() - began
            result.batches += 1
            result.stored += stored
            result.inflated += len(body)
            result.size += HEADER_SIZE + len(packed)
        total += len(body)
        if total >= MOST_BYTES:
            break
    return results


def _bodies(places: Sequence[tuple[str, int, int]], guest: Guest) -> Iterator[tuple[int, bytes]]:
    for path, position, size in places:
        try:
            with open_source(path, guest) as source:
                data = source.read(position, size)
            header = read_header(data)
            if header.size == size == len(data):
                yield size, read_body(header, data, max_inflated=DEFAULT_MAX_BATCH_SIZE)
        except (FileNotFoundError, FormatError, KafkatoolError):
            continue
