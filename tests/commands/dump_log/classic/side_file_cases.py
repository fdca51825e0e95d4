"""Segments with side files for tests: right ones, and wrong ones in every way a seed thinks of."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kafkatool.commands.dump_log.classic.index_files import dump_index, dump_time_index
from kafkatool.commands.dump_log.classic.java_paths import java_path
from kafkatool.commands.dump_log.classic.options import ClassicOptions
from kafkatool.commands.dump_log.classic.reports import Reports
from kafkatool.commands.dump_log.classic.side_files import Emit, Note
from kafkatool.commands.dump_log.classic.state_files import dump_snapshot, dump_txn_index
from kafkatool.engine.batches.damage import Damage
from kafkatool.format import legacy, offset_index, time_index, txn_index
from kafkatool.format.batch import TIMESTAMP_TYPE_MASK, Codec, NewRecord, read_header, seal
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.names import segment_file
from kafkatool.format.state import producer_snapshot
from tests.logs import TIME

Dump = Callable[[str, ClassicOptions, Reports, Emit, Note], None]
DUMPS: dict[str, Dump] = {
    ".index": dump_index,
    ".timeindex": dump_time_index,
    ".txnindex": dump_txn_index,
    ".snapshot": dump_snapshot,
}


@dataclass
class Printed:
    """What a dump wrote where."""

    out: list[str] = field(default_factory=list)
    err: list[str] = field(default_factory=list)
    notes: list[Damage] = field(default_factory=list)

    @property
    def stdout(self) -> bytes:
        return "".join(f"{text}\n" for text in self.out).encode()

    @property
    def stderr(self) -> bytes:
        return "".join(f"{line}\n" for line in self.err).encode()


def dump(paths: list[str], options: ClassicOptions) -> Printed:
    """Dump side files one after the other, as a run of the tool does."""
    printed = Printed()
    reports = Reports(options.release, printed.err.append)
    for path in paths:
        printed.out.append(f"Dumping {java_path(path)}")
        DUMPS["." + path.rpartition(".")[2]](path, options, reports, printed.out.append, printed.notes.append)
    reports.finish()
    return printed


class Placed(NamedTuple):
    """A batch in a log under construction."""

    position: int
    last_offset: int
    max_timestamp: int


class Segment:
    """The files of one segment, as bytes by extension."""

    def __init__(self, base: int, files: dict[str, bytes]) -> None:
        self.base = base
        self.files = files

    def write(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        for extension, content in self.files.items():
            (directory / segment_file(self.base, extension)).write_bytes(content)

    def path(self, directory: Path, extension: str) -> str:
        return str(directory / segment_file(self.base, extension))


def right_segment(chance: random.Random, base: int | None = None) -> Segment:
    """A log of a few batches with indexes as a broker might have written them."""
    base = chance.choice([0, 0, 7, 1000, 2**31 + 5]) if base is None else base
    log, placed = b"", []
    offset = base
    for _ in range(chance.randint(0, 12)):
        offset += chance.choice([0, 0, 0, 1, 50])
        entry, last, stamp = _entry(chance, offset)
        placed.append(Placed(len(log), last, stamp))
        log += entry
        offset = last + 1
    indexed = sorted(chance.sample(range(len(placed)), chance.randint(0, len(placed))))
    return Segment(
        base,
        {
            ".log": log,
            ".index": _offset_entries(base, [placed[i] for i in indexed]),
            ".timeindex": _time_entries(base, placed),
            ".txnindex": _txn_entries(chance, base),
            ".snapshot": _producers(chance),
        },
    )


def _entry(chance: random.Random, offset: int) -> tuple[bytes, int, int]:
    stamps = [TIME + chance.randint(0, 9999) for _ in range(chance.randint(1, 4))]
    shape = chance.choice(["plain", "plain", "plain", "append", "empty", "old", "older"])
    if shape in ("old", "older"):
        magic = 1 if shape == "old" else 0
        entry = legacy.write_message(offset, b"k", b"v", magic=magic, timestamp_ms=stamps[0])
        return entry, offset, stamps[0] if magic else -1
    attributes = TIMESTAMP_TYPE_MASK if shape == "append" else 0
    records = [NewRecord(None, b"v" * chance.randint(0, 30), stamp) for stamp in stamps]
    codec = chance.choice([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4])
    batch = write_batch(records, base_offset=offset, codec=codec, attributes=attributes)
    if shape == "empty":
        batch = seal(read_header(batch)._replace(records_count=0, attributes=0), b"")
    return batch, offset + len(records) - 1, max(stamps)


def _offset_entries(base: int, placed: list[Placed]) -> bytes:
    entries = [offset_index.OffsetEntry(p.last_offset - base, p.position) for p in placed]
    return offset_index.write_entries(entries)


def _time_entries(base: int, placed: list[Placed]) -> bytes:
    entries, latest = [], -1
    for batch in placed:
        if batch.max_timestamp > latest:
            latest = batch.max_timestamp
            entries.append(time_index.TimeEntry(latest, batch.last_offset - base))
    return time_index.write_entries(entries)


def _txn_entries(chance: random.Random, base: int) -> bytes:
    firsts = [base + chance.randint(0, 99) for _ in range(chance.randint(0, 4))]
    return txn_index.write_entries(txn_index.AbortedTxn(0, 5, at, at + 9, at + 10) for at in firsts)


def _producers(chance: random.Random) -> bytes:
    def number(bits: int) -> int:
        edge = 1 << (bits - 1)
        return chance.choice([-1, 0, 5, edge - 1, -edge, chance.randrange(-edge, edge)])

    widths = (64, 16, 32, 64, 32, 64, 32, 64)
    count = chance.randint(0, 4)
    return producer_snapshot.write_snapshot(
        [producer_snapshot.ProducerState(*map(number, widths)) for _ in range(count)]
    )


def damage(chance: random.Random, segment: Segment, extensions: list[str]) -> None:
    """Spoil some of the files, each in one to three ways."""
    for extension in extensions:
        for _ in range(chance.randint(0, 3)):
            content = segment.files.get(extension)
            if content is None:
                break
            spoil = chance.choice(_SPOILERS)
            spoiled = spoil(chance, bytearray(content))
            if spoiled is None:
                del segment.files[extension]
            else:
                segment.files[extension] = bytes(spoiled)


def _flip(chance: random.Random, raw: bytearray) -> bytearray:
    for _ in range(chance.randint(1, 3)):
        if raw:
            raw[chance.randrange(len(raw))] = chance.choice([0, 1, 0x7F, 0xFF, chance.randrange(256)])
    return raw


def _cut(chance: random.Random, raw: bytearray) -> bytearray:
    return raw[: chance.randint(0, len(raw))]


def _pad(chance: random.Random, raw: bytearray) -> bytearray:
    return raw + bytes(chance.choice([1, 8, 12, 24, 34, 100]))


def _grow(chance: random.Random, raw: bytearray) -> bytearray:
    return raw + chance.randbytes(chance.choice([1, 8, 12, 24, 46]))


def _swap(chance: random.Random, raw: bytearray) -> bytearray:
    """Exchange or repeat stretches of the size of some entry."""
    size = chance.choice([8, 12, 34, 46])
    if len(raw) >= 2 * size:
        first, second = (chance.randrange(len(raw) // size) * size for _ in range(2))
        raw[first : first + size] = raw[second : second + size]
    return raw


def _number(chance: random.Random, raw: bytearray) -> bytearray:
    """Put a small or odd number in place of a 32-bit one."""
    if len(raw) >= 4:
        at = chance.randrange(len(raw) // 4) * 4
        value = chance.choice([0, 1, 13, 14, 61, 70, 100, 2**31 - 1, -1, -(2**31)])
        raw[at : at + 4] = value.to_bytes(4, "big", signed=True)
    return raw


def _replace(chance: random.Random, _raw: bytearray) -> bytearray:
    return bytearray(chance.randbytes(chance.choice([0, 7, 10, 16, 48, 68, 102])))


def _remove(chance: random.Random, raw: bytearray) -> bytearray | None:
    return None if chance.random() < 0.3 else raw


_SPOILERS: list[Callable[[random.Random, bytearray], bytearray | None]] = [
    _flip,
    _flip,
    _cut,
    _pad,
    _grow,
    _swap,
    _number,
    _number,
    _replace,
    _remove,
]
