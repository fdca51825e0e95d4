"""The text checkpoints of a log directory and of a partition.

    0\\n                        version, always 0
    2\\n                        number of entries
    orders 0 1234\\n            topic, partition, offset      (offset checkpoints)
    orders 1 99\\n

    0\\n1\\n7 1200\\n             epoch, start offset           (leader-epoch-checkpoint)

UTF-8. An empty file, and one with a version only, hold no entries. Fields are separated by any run of white
space, and a line may end in some, but not begin with it. The entries come in hash order, not sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from kafkatool.errors import FormatError
from kafkatool.format.java_text import parse_int, parse_long, split_fields, utf8_lines
from kafkatool.format.primitives import Buffer

VERSION = 0


class PartitionOffset(NamedTuple):
    topic: str
    partition: int
    offset: int


class EpochStart(NamedTuple):
    epoch: int
    start_offset: int


_Entry = TypeVar("_Entry", PartitionOffset, EpochStart)


def read_offset_checkpoint(buf: Buffer) -> list[PartitionOffset]:
    """Decode one of the four offset checkpoints; raise FormatError where a broker would refuse it."""
    return _read(buf, _partition_offset, "topic partition offset")


def read_leader_epochs(buf: Buffer) -> list[EpochStart]:
    """Decode a leader-epoch-checkpoint; raise FormatError where a broker would refuse it."""
    return _read(buf, _epoch_start, "epoch start-offset")


def write_offset_checkpoint(entries: Iterable[PartitionOffset]) -> bytes:
    return _write([f"{entry.topic} {entry.partition} {entry.offset}" for entry in entries])


def write_leader_epochs(entries: Iterable[EpochStart]) -> bytes:
    return _write([f"{entry.epoch} {entry.start_offset}" for entry in entries])


def _partition_offset(fields: list[str]) -> PartitionOffset | None:
    if len(fields) != 3:
        return None
    partition, offset = parse_int(fields[1]), parse_long(fields[2])
    return None if partition is None or offset is None else PartitionOffset(fields[0], partition, offset)


def _epoch_start(fields: list[str]) -> EpochStart | None:
    if len(fields) != 2:
        return None
    epoch, start_offset = parse_int(fields[0]), parse_long(fields[1])
    return None if epoch is None or start_offset is None else EpochStart(epoch, start_offset)


def _read(buf: Buffer, parse: Callable[[list[str]], _Entry | None], shape: str) -> list[_Entry]:
    lines = utf8_lines(buf, "checkpoint")
    at, version = next(lines, (0, str(VERSION)))
    if parse_int(version) != VERSION:
        raise FormatError("checkpoint version", at, expected=VERSION, found=repr(version))
    count_at, count = next(lines, (0, "0"))
    expected = parse_int(count)
    if expected is None or expected < 0:
        raise FormatError("checkpoint entry count", count_at, expected="a number", found=repr(count))
    entries: list[_Entry] = []
    for at, line in lines:
        entry = parse(split_fields(line))
        if entry is None:
            raise FormatError("checkpoint line", at, expected=repr(shape), found=repr(line))
        entries.append(entry)
    if len(entries) != expected:
        raise FormatError("checkpoint entry count", count_at, expected=len(entries), found=expected)
    return entries


def _write(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in [str(VERSION), str(len(lines)), *lines]).encode()
