"""Split a segment whose offsets span more than its indexes can express.

    1  the parts are written under names that end in `.cleaned`, with their indexes
    2  the last part first, they become `.swap`: once all of them are, they replace the old segment
    3  the old segment is deleted, and they take their own names, the first part first

A crash before the end of 2 leaves the old segment as it was, and one after it the parts: see `leftovers`. A
broker does the same, but does not sync every step before the next.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafkatool.engine.batches.headers import FoundBatch
from kafkatool.engine.broker.index_accounting import IndexAccounting
from kafkatool.engine.broker.segment_bases import bases_of
from kafkatool.engine.cluster.topic_config import TopicConfig
from kafkatool.engine.files.disk import File, Files
from kafkatool.engine.log.segment import INDEX, LOG, TIME_INDEX, WritableSegment
from kafkatool.engine.log.snapshots import Snapshots
from kafkatool.errors import FormatError, KafkatoolError
from kafkatool.format import offset_index, time_index
from kafkatool.format.batch import MAX_INT32
from kafkatool.format.names import segment_file

CHUNK = 1 << 20
CLEANED, SWAP = ".cleaned", ".swap"
_EXTENSIONS = (LOG, INDEX, TIME_INDEX)


class NotSplittable(KafkatoolError):
    """A batch does not belong to its segment, and a broker would not start because of it."""


class Part(NamedTuple):
    """A run of batches that one segment can hold."""

    directory: str
    base_offset: int
    batches: list[FoundBatch]

    def path(self, extension: str, suffix: str) -> str:
        return os.path.join(self.directory, segment_file(self.base_offset, f".{extension}") + suffix)


def split_segment(files: Files, segment: WritableSegment, config: TopicConfig, snapshots: Snapshots) -> None:
    """Replace a segment by as many as its offsets need; raise NotSplittable, with nothing changed."""
    parts = _parts_of(segment)
    for part in parts:
        _write_part(files, segment, part, config)
    # One after another, both times: the parts of an incomplete swap are taken for the old segment, and so is
    # what lies between two parts that still have to be renamed.
    for part in reversed(parts):
        _rename(files, part, CLEANED, SWAP)
    segment.delete()
    if segment.base_offset not in [part.base_offset for part in parts]:
        snapshots.delete(segment.base_offset)
    for part in parts:
        _rename(files, part, SWAP, "")


def _parts_of(segment: WritableSegment) -> list[Part]:
    name = segment_file(segment.base_offset, ".log")
    batches = list(segment.batches_from(0))
    end = sum(batch.size for batch in batches)
    if not batches or batches[-1].header.last_offset - segment.base_offset <= MAX_INT32:
        raise NotSplittable(f"{name}: a batch does not belong to this segment, and it cannot be split")
    if end != segment.size:
        raise NotSplittable(f"{name}: it has to be split, and ends in the middle of a batch")
    try:
        bases = bases_of(((batch.position, batch.header) for batch in batches), segment.read)
    except FormatError as error:
        raise NotSplittable(f"{name}: {error}") from None
    if len(set(bases.values())) < len(bases):
        raise NotSplittable(f"{name}: two segments of the same base offset would be made of it")
    parts: list[Part] = []
    for batch in batches:
        if batch.position in bases:
            parts.append(Part(os.path.dirname(segment.path(LOG)), bases[batch.position], []))
        parts[-1].batches.append(batch)
    return parts


def _write_part(files: Files, segment: WritableSegment, part: Part, config: TopicConfig) -> None:
    accounting = IndexAccounting(
        part.base_offset, config.index_interval_bytes, config.max_index_bytes, skips_when_full=True
    )
    offsets, times = bytearray(), bytearray()
    first = part.batches[0].position
    for position, size, header in part.batches:
        new = accounting.add(position - first, size, header.last_offset, header.max_timestamp)
        if new.offset is not None:
            offsets += offset_index.write_entry(new.offset)
        if new.time is not None:
            times += time_index.write_entry(new.time)
    if (closing := accounting.close()) is not None:
        times += time_index.write_entry(closing)
    last = part.batches[-1]
    contents: dict[str, Iterable[bytes | bytearray]] = {
        LOG: _pieces(segment, first, last.position + last.size),
        INDEX: [offsets],
        TIME_INDEX: [times],
    }
    mtime_ns = os.stat(segment.path(LOG)).st_mtime_ns
    for extension, pieces in contents.items():
        path = part.path(extension, CLEANED)
        file = files.create(path)
        try:
            _fill(file, pieces)
            files.set_mtime(path, mtime_ns)
            file.sync()
        finally:
            file.close()


def _pieces(segment: WritableSegment, start: int, end: int) -> Iterator[bytes]:
    for position in range(start, end, CHUNK):
        yield segment.read(position, min(CHUNK, end - position))


def _fill(file: File, pieces: Iterable[bytes | bytearray]) -> None:
    position = 0
    for piece in pieces:
        file.write_at(position, piece)
        position += len(piece)


def _rename(files: Files, part: Part, before: str, after: str) -> None:
    for extension in _EXTENSIONS:
        files.rename(part.path(extension, before), part.path(extension, after))
    files.sync_directory(part.directory)
