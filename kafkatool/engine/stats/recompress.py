"""What a sample of batches would take on the disk with other codecs."""

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
"""Of inflated records that are compressed again; the batch that goes beyond it is the last."""


@dataclass(frozen=True, slots=True)
class CodecChoice:
    """A codec, at a level of its own or Kafka's default."""

    codec: Codec
    level: int | None = None

    @property
    def label(self) -> str:
        return self.codec.label if self.level is None else f"{self.codec.label}:{self.level}"


@dataclass(slots=True)
class WhatIf:
    """What the batches of the sample come to with one choice."""

    choice: CodecChoice
    batches: int = 0
    stored: int = 0
    """Bytes of the batches as they are."""
    inflated: int = 0
    """Bytes of the records, not compressed."""
    size: int = 0
    """Bytes that the batches would have."""
    seconds: float = 0.0
    """That compressing took here."""


def what_if(
    places: Sequence[tuple[str, int, int]],
    choices: Sequence[CodecChoice],
    guest: Guest,
    clock: Callable[[], float],
) -> list[WhatIf]:
    """Compress batches, named by path, position and size, in every way; what cannot be read is left out."""
    results = [WhatIf(choice) for choice in choices]
    for choice in choices:
        compress(choice.codec, b"", level=choice.level)  # loads the library, which is nobody's time
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
