"""Calls of the kernel, made by chance: good batches, damaged ones, any bytes, and callers that talk nonsense.

`make_case` makes one from a source of random numbers; `outcome` makes the call on the compiled kernel or the
reference, and gives something that can be compared.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import numpy as np

from kafkatool.format.batch import HEADER_SIZE, BatchHeader, NewRecord, read_header, seal
from kafkatool.format.kernel import reference
from kafkatool.format.kernel.outcome import EPOCH, INDEX, MORE, ODD, PRODUCER, RECORDS, TIME
from kafkatool.format.primitives import Buffer
from kafkatool.format.record import write_record
from tests.logs import TIME as NOON

TEXTS = [None, b"", b"k", b"value", "Straße".encode(), "𝄞".encode(), b"\xff\xfe", b"\xed\xa0\x80", b"\xc3"]
STEPS = 200


class Case(NamedTuple):
    """One call: bytes, and what a caller says about them."""

    window: Buffer
    start: int
    stop: int
    position: int
    end: int
    offset: int
    rows: int
    row: int
    left: int
    flag: bool
    starts: list[int]
    sizes: list[int]
    claims: tuple[list[int], ...]
    base: int
    highest: int


# --- making them --------------------------------------------------------------------------------------


def make_case(random: Random) -> Case:
    window = make_window(random)
    size = len(window)
    base = make_base(random, window)
    return Case(
        window=window,
        start=0 if random.random() < 0.8 else some_place(random, size),
        stop=size if random.random() < 0.6 else some_place(random, size),
        position=random.choice([0, 0, 1 << 20, 1 << 40, 1 << 62, -5]),
        end=random.choice([1 << 62, size, some_place(random, size)]),
        offset=random.choice([-1, -(1 << 63), some_number(random, 64)]),
        rows=random.choice([0, 1, 2, 5, 50, 300]),
        row=random.choice([0, 0, 0, 0, 0, 0, 1, 2, 50, 51, (1 << 63) - 1, -1]),
        left=random.choice([0, 1, 2, 3, 8, 40, -1, some_number(random, 63)]),
        flag=random.random() < 0.7,
        starts=some_places(random, size),
        sizes=some_places(random, 8),
        claims=make_claims(random, window, base),
        base=base,
        highest=random.choice([(1 << 63) - 1, 1 << 62, 1 << 70, 5]),
    )


def make_window(random: Random) -> bytes:
    if random.random() < 0.05:
        return random.randbytes(random.randint(0, 200))
    pieces, offset = [], random.choice([0, 0, 0, 7, (1 << 63) - 9, some_number(random, 64)])
    for _ in range(random.choice([1, 1, 2, 3, 3, 6, 6, 40])):
        batch = make_batch(random, offset)
        pieces.append(batch)
        offset = read_header(batch).last_offset + random.choice([1, 1, 1, 1, 3, -1])
    if random.random() < 0.2:
        pieces[-1] = pieces[-1][: random.choice([1, 16, 17, HEADER_SIZE - 1, HEADER_SIZE])]
    window = b"".join(pieces)
    return mutated(random, window) if random.random() < 0.4 else window


def make_batch(random: Random, base_offset: int) -> bytes:
    """A batch with a good checksum, whatever is in it. Records are never compressed, whatever it says."""
    rows = random.choice([0, 1, 1, 1, 2, 2, 3, 3, 8, 40])
    stamp = random.choice([NOON, NOON, NOON, -1, some_number(random, 64)])
    body = b"".join(make_record(random, delta, stamp) for delta in range(rows))
    if random.random() < 0.2:
        body = mutated(random, body)
    is_plain = random.random() < 0.6
    header = BatchHeader(
        base_offset=wrapped(base_offset, 64),
        batch_length=0,
        partition_leader_epoch=random.choice([0, 0, 0, 1, some_number(random, 32)]),
        magic=2,
        crc=0,
        attributes=0 if is_plain else random.choice([0x10, 0x30, 8, 0x40, 4, 3, some_number(random, 16)]),
        last_offset_delta=max(0, rows - 1) if is_plain else random.choice([rows, some_number(random, 31)]),
        base_timestamp=stamp,
        max_timestamp=random.choice([NOON, NOON + 9, some_number(random, 64)]),
        producer_id=random.choice([-1, 3, 3, 4, random.randrange(99), some_number(random, 64)]),
        producer_epoch=0 if is_plain else random.choice([0, 0, 0, 1, some_number(random, 16)]),
        base_sequence=random.choice([-1, 0, (1 << 31) - 3, some_number(random, 32)]),
        records_count=rows if random.random() < 0.85 else some_number(random, 32),
    )
    return seal(header, body)


def make_record(random: Random, delta: int, stamp: int) -> bytes:
    if random.random() < 0.05:
        delta = some_number(random, 32)
    time = stamp + random.choice([0, 0, 1, 9, 70, -1, some_number(random, 64)])
    headers = [(make_text(random) or b"", make_text(random)) for _ in range(random.choice([0, 0, 0, 1, 3]))]
    return write_record(NewRecord(make_text(random), make_text(random), time, headers), delta, stamp)


def make_text(random: Random) -> bytes | None:
    if random.random() < 0.1:
        return random.choice([b"x" * 63, b"x" * 64, b"long " * 50, "ä".encode() * 5000, random.randbytes(9)])
    return random.choice(TEXTS[:6] if random.random() < 0.9 else TEXTS)


def mutated(random: Random, data: bytes) -> bytes:
    """Bits flipped, an end cut off, zeros in the middle, or something that was not there."""
    if not data:
        return data
    changed, at = bytearray(data), random.randrange(len(data))
    match random.randrange(5):
        case 0:
            for _ in range(random.randint(1, 4)):
                changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
        case 1:
            del changed[at:]
        case 2:
            size = min(random.choice([1, 4, 60, 500]), len(data) - at)
            changed[at : at + size] = bytes(size)
        case 3:
            changed[at:at] = random.randbytes(random.randint(1, 12))
        case 4:
            changed[at : at + 1] = random.choice(
                [b"\xff\xff\xff\xff\x0f", b"\x80" * 11, b"\x7f", b"\x80\x00"]
            )
    return bytes(changed)


def make_base(random: Random, window: bytes) -> int:
    """Where a log says that its offsets begin."""
    if len(window) < HEADER_SIZE or random.random() < 0.1:
        return random.choice([0, 1, 7, (1 << 63) - 3, (1 << 63) - 1, some_number(random, 64)])
    return max(0, read_header(window).base_offset - random.choice([0, 0, 0, 1, 9]))


def make_claims(random: Random, window: bytes, base: int) -> tuple[list[int], ...]:
    """Entries of two indexes, most of them as the log has it."""
    offsets: list[int] = []
    positions: list[int] = []
    times: list[int] = []
    time_offsets: list[int] = []
    at = 0
    while len(window) - at >= HEADER_SIZE and len(positions) < 20:
        header = read_header(window, at)
        if header.size < HEADER_SIZE:
            break
        if random.random() < 0.5:
            offsets.append(wrapped(header.base_offset - base + random.choice([0, 0, 0, 1, -1]), 64))
            positions.append(at + random.choice([0, 0, 0, 0, 1, -1]))
        if random.random() < 0.5:
            times.append(wrapped(header.max_timestamp + random.choice([0, 0, -1, 1]), 64))
            time_offsets.append(wrapped(header.last_offset - base, 64))
        at += header.size
    if random.random() < 0.02:
        times.append(some_number(random, 64))
    if random.random() < 0.1:
        offsets.append(some_number(random, 64))
        positions.append(some_number(random, 64))
    return offsets, positions, times, time_offsets


def some_number(random: Random, bits: int) -> int:
    """Of so many bits with its sign; the ends and what lies near zero are as likely as all the rest."""
    top = 1 << bits - 1
    near = random.choice([-top, -top + 1, -2, -1, 0, 1, 2, top - 2, top - 1])
    return random.choice([near, random.randrange(-top, top), random.randrange(200)])


def some_place(random: Random, size: int) -> int:
    """Inside, at an end, a little outside, or far away."""
    return random.choice([random.randint(0, size), size, size + 1, -1, some_number(random, 64)])


def some_places(random: Random, size: int) -> list[int]:
    count = 3 if random.random() < 0.9 else random.randrange(5)
    return [
        some_place(random, size) if random.random() < 0.05 else random.randint(0, size) for _ in range(count)
    ]


def wrapped(value: int, bits: int) -> int:
    top = 1 << bits - 1
    return (value + top) % (2 * top) - top


# --- the calls ----------------------------------------------------------------------------------------


def outcome(call: Callable[[Any, Case], object], kernel: Any, case: Case) -> object:
    """What comes back, or the kind of error: a caller's mistake is a ValueError, and there is no other."""
    try:
        return call(kernel, case)
    except ValueError as error:
        return type(error)


def good_run(kernel: Any, case: Case) -> object:
    return kernel.good_run(case.window, case.start, case.stop, case.offset)


def batch_rows(kernel: Any, case: Case) -> object:
    table = np.zeros((14, case.rows), dtype=np.int64)
    at, row = kernel.batch_rows(case.window, case.start, case.stop, case.position, table, case.row)
    return at, row, table[:, case.row : row].tolist()


def record_rows(kernel: Any, case: Case) -> object:
    table = np.zeros((11, case.rows), dtype=np.int64)
    at, row, batch = kernel.record_rows(case.window, case.start, case.stop, table, case.row, 5)
    return at, row, batch, table[:, case.row : row].tolist()


def arena_rows(kernel: Any, case: Case) -> object:
    """Bodies taken from the window itself, as if they had been inflated."""
    arena, ends, at = bytearray(), array("q"), 0
    while len(case.window) - at >= HEADER_SIZE and len(ends) < 50:
        size = max(HEADER_SIZE, read_header(case.window, at).size)
        arena += case.window[at + HEADER_SIZE : at + size]
        ends.append(len(arena))
        at += size
    if not case.flag:
        ends.extend(case.sizes)
        ends = array("q", case.starts) + ends if case.row else ends
    table = np.zeros((11, case.rows), dtype=np.int64)
    at, row, batch = kernel.arena_rows(case.window, case.start, case.stop, arena, ends, table)
    return at, row, batch, table[:, :row].tolist()


def body_rows(kernel: Any, case: Case) -> object:
    header, body = parted(case.window)
    table = np.zeros((11, case.rows), dtype=np.int64)
    at, row, left = kernel.body_rows(header, body, case.start, case.stop, case.left, table, case.row, 5)
    return at, row, left, table[:, case.row : row].tolist()


def body_in_pieces(kernel: Any, case: Case) -> object:
    """All records of a batch, as many at a time as the table has rows."""
    header, body = parted(case.window)
    if len(header) < HEADER_SIZE:
        return None
    table = np.zeros((11, max(1, case.rows)), dtype=np.int64)
    at, left, found = 0, min(read_header(header).records_count, 1000), []
    while left > 0:
        at, row, left = kernel.body_rows(header, body, at, len(body), left, table, 0, 5)
        found.append((at, row, left, table[:, :row].tolist()))
    return found


def gather(kernel: Any, case: Case) -> object:
    ends = np.zeros(3, dtype=np.int64)
    pieces = kernel.gather(case.window, array("q", case.starts), array("q", case.sizes), ends)
    return pieces, ends.tolist()


def hashes(kernel: Any, case: Case) -> object:
    into = np.zeros(3, dtype=np.uint64)
    kernel.hashes(case.window, array("q", case.starts), array("q", case.sizes), into)
    return into.tolist()


def index_columns(kernel: Any, case: Case) -> object:
    first, second = array("q", bytes(8 * case.rows)), array("q", bytes(8 * (case.rows if case.row else 3)))
    kernel.index_columns(case.window, case.flag, first, second)
    return list(first), list(second)


def rising(kernel: Any, case: Case) -> object:
    columns = (*case.claims, sorted(case.starts), [case.base, case.left], sorted(case.window[:40]))
    return [kernel.rising(array("q", column), least) for column in columns for least in (case.row, 0, 1)]


def key_offsets(kernel: Any, case: Case) -> object:
    starts, sizes = array("q", case.starts), array("q", case.sizes)
    table, into = kernel.KeyOffsets(), array("q", bytes(24))
    taken = table.put(case.window, starts, sizes, array("q", [abs(case.row), case.left, 7]), case.rows)
    table.get(case.window, starts, sizes, into)
    return taken, len(table), list(into)


def key_marks(kernel: Any, case: Case) -> object:
    keys = case.window[:24]
    starts, sizes = array("q", range(len(keys))), array("q", [byte % 4 - 1 for byte in keys])
    table, marks = kernel.KeyOffsets(), bytearray(30)
    first = case.row % 40 - 1
    offsets = array("q", range(first + case.rows % 9, first + case.rows % 9 + len(keys)))
    taken = table.put_marking(case.window, starts, sizes, offsets, case.rows, first, marks)
    return taken, len(table), bytes(marks)


def record_bytes(kernel: Any, case: Case) -> object:
    fields = [case.starts, case.sizes, case.sizes, case.starts]
    count = min(len(case.starts), len(case.sizes))
    offsets = [case.offset + each for each in range(count)] if case.flag else [case.left] * count
    times = [case.base - each for each in range(count)]
    columns = [[wrapped(one, 64) for one in column[:count]] for column in (offsets, times, *fields)]
    rows = np.array(columns, dtype=np.int64).reshape(6, count)
    return kernel.record_bytes(case.window, rows, case.offset, case.left)


def encode_batches(kernel: Any, case: Case) -> object:
    count = min(len(case.starts), len(case.sizes))
    times = [case.base - each for each in range(count)]
    fields = [times, case.starts, case.sizes, case.starts, case.sizes[::-1]]
    columns = [[wrapped(one, 64) for one in column[:count]] for column in fields]
    rows = np.ascontiguousarray(np.array(columns, dtype=np.int64).reshape(5, count).T)
    ends = array("q", [count // 3, count] if count > 2 else [case.row % 9])
    return kernel.encode_batches(case.window, rows, ends, case.offset, case.rows % (1 << 31))


def index_counts(kernel: Any, case: Case) -> object:
    """The batches of the window, appended one by one as if they followed upon each other, or not."""
    counts = kernel.IndexCounts(case.base, case.rows, case.row % 60, case.row % 50)
    offset_entries, time_entries, written = bytearray(), bytearray(), list[object]()
    if case.claims[0] and not case.flag:  # as after a load of an index that lies
        counts.offset_entries, counts.last_indexed_offset = 1, wrapped(case.highest, 64)
        counts.time_entries, counts.last_time, counts.last_time_offset = 1, case.left, case.offset
    at, seen = 0, list[object]()
    while len(case.window) - at >= HEADER_SIZE and len(seen) < 50:
        header = read_header(case.window, at)
        size = max(HEADER_SIZE, header.size)
        batch = case.window[at : at + size]
        last = counts.append_plain(
            *(
                lambda *what: written.append(what),
                batch,
                case.position + at,
                header.base_offset if case.flag else case.offset,
            ),
            *(header.partition_leader_epoch, wrapped(case.highest, 64), offset_entries, time_entries),
        )
        seen.append((last, *(getattr(counts, name) for name in COUNTS)))
        at += size
    whole = case.window[: size if seen else 0]
    seen.append(
        counts.append_each(
            *(
                lambda *what: written.append(what),
                lambda: len(written),
                [whole, whole],
                case.position & 0xFFFF,
            ),
            *(1 << 20, case.offset, wrapped(case.offset + case.position % 3, 64), 0),
            *(wrapped(case.highest, 64), offset_entries, time_entries),
        )
    )
    return seen, written, bytes(offset_entries), bytes(time_entries)


COUNTS = (
    *("bytes_since_entry", "offset_entries", "time_entries", "last_indexed_offset"),
    *("last_time", "last_time_offset", "max_timestamp", "max_timestamp_offset"),
)


def judge_records(kernel: Any, case: Case) -> object:
    """Numbers near each other, so that every rule decides about some."""
    near = case.window[:24]
    count, batches = len(near), 4
    offsets, found, keys, values = (
        array("q", [byte * factor % 7 + shift for byte in near])
        for factor, shift in ((1, 0), (3, 0), (5, -1), (11, -2))
    )
    batch = array("q", [byte % batches if case.flag or byte else case.row for byte in near])
    flags = bytes((len(case.window) + 3 * number) % 8 for number in range(batches))
    fates, kept, tombstones = bytearray(count), array("q", [9] * batches), array("q", [9] * batches)
    kernel.judge_records(offsets, keys, values, batch, found, case.rows % 7, flags, fates, kept, tombstones)
    return bytes(fates), list(kept), list(tombstones)


def kept_batches(kernel: Any, case: Case) -> object:
    """Batches of the window as the walk finds them, with their records, or what a caller makes up."""
    starts, at = array("q"), 0
    while len(case.window) - at >= HEADER_SIZE and len(starts) < 50:
        header = read_header(case.window, at)
        if not case.flag or (header.size <= len(case.window) - at and header.base_offset >= 0):
            starts.append(at)
        at += max(HEADER_SIZE, header.size)
    table = np.zeros((11, 400), dtype=np.int64)
    _at, rows, _batch = reference.record_rows(case.window, 0, len(case.window), table, 0, 0)
    if not case.flag:
        starts.extend(case.starts)
        table[:, :3] = case.left >> 1
    records = tuple(np.ascontiguousarray(table[field, :rows]) for field in (10, 0, 1, 4, 5, 6, 7, 9))
    count = len(starts)
    outcomes = bytes((len(case.window) + number) % 4 for number in range(count))
    fates = bytes((len(case.window) + row) % 3 % 2 for row in range(rows))
    horizons = bytes((case.rows + number) % 5 == 2 for number in range(count))
    sizes, times = array("q", bytes(8 * count)), array("q", bytes(8 * count))
    written = kernel.kept_batches(case.window, starts, outcomes, horizons, NOON, records, fates, sizes, times)
    return written if written is None else (written, list(sizes), list(times))


def records_hold(kernel: Any, case: Case) -> object:
    return kernel.records_hold(*parted(case.window))


def batch_lines(kernel: Any, case: Case) -> object:
    return kernel.batch_lines(case.window, case.start, case.stop, case.position)


def deep_lines(kernel: Any, case: Case) -> object:
    return kernel.deep_lines(case.window, case.start, case.stop, case.position, case.offset, case.flag)


def deep_lines_of_a_body(kernel: Any, case: Case) -> object:
    _header, body = parted(case.window)
    last = case.offset
    return kernel.deep_lines(case.window, case.start, case.stop, case.position, last, case.flag, body)


def tally(kernel: Any, case: Case) -> object:
    """A whole walk: whatever makes it stop is settled, as a caller would, until nothing goes on."""
    counted = kernel.Tally(case.base, case.highest, tuple(array("q", one) for one in case.claims), case.flag)
    at, seen = case.start, []
    for _ in range(STEPS):
        position = case.position + at - case.start
        at, why = counted.run(case.window, at, case.stop, position, case.end)
        seen.append((at, why, facts_of(counted)))
        if why in (MORE, ODD):
            break
        settle(counted, why, case, at)
        if why == PRODUCER:
            seen.append(counted.drain())
    return seen, counted.drain()


def settle(counted: Any, why: int, case: Case, at: int) -> None:
    position = case.position + at - case.start
    if why == INDEX:
        counted.indexed += 1
    elif why == TIME:
        counted.timed += 1
    elif why == EPOCH:
        counted.epoch = read_header(case.window, at).partition_leader_epoch
    elif why == PRODUCER and read_header(case.window, at).is_control:
        counted.settled_producer = position
    elif why == RECORDS:
        counted.settled_records = position


def facts_of(counted: Any) -> tuple[int, ...]:
    return (
        *(counted.batches, counted.records, counted.thinned, counted.holes),
        *(counted.first_offset, counted.last_offset, counted.previous_offset),
        *(counted.last_base, counted.last_position, counted.max_timestamp, counted.max_filled_timestamp),
        *(counted.epoch, counted.indexed, counted.timed),
    )


def parted(window: Buffer) -> tuple[Buffer, Buffer]:
    """The first header, and the body that it speaks of, as far as that is there."""
    size = read_header(window).size if len(window) >= HEADER_SIZE else 0
    return window[:HEADER_SIZE], window[HEADER_SIZE : max(HEADER_SIZE, size)]


CALLS: tuple[Callable[[Any, Case], object], ...] = (
    *(
        good_run,
        batch_rows,
        record_rows,
        arena_rows,
        body_rows,
        body_in_pieces,
        gather,
        hashes,
        index_columns,
        rising,
        key_offsets,
        key_marks,
        record_bytes,
        encode_batches,
        index_counts,
    ),
    *(judge_records, kept_batches),
    *(records_hold, batch_lines, deep_lines, deep_lines_of_a_body, tally),
)
