"""Runs of batches give what the same batches give one by one."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from kafkatool.engine.batches.scan import scan, scan_runs
from kafkatool.engine.broker.derived_files import Claims, Indexed, _IndexWalk
from kafkatool.engine.broker.index_accounting import IndexAccounting
from kafkatool.engine.broker.producer_state import ProducerStates
from kafkatool.engine.files.source import open_source
from kafkatool.format.batch import TRANSACTIONAL_MASK, NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.state.producer_snapshot import ProducerState

BASE = 1000
ENTRY_LIMIT = 1 << 20

batches = st.lists(
    st.fixed_dictionaries(
        {
            "gap": st.sampled_from([0, 0, 0, 1, 50]),
            "records": st.integers(1, 3),
            "size": st.integers(0, 300),
            "time": st.integers(-1, 40),
            "producer": st.sampled_from([-1, -1, 7, 8, 9]),
            "epoch": st.sampled_from([0, 0, 0, 1]),
            "sequence": st.integers(0, 5),
            "is_transactional": st.sampled_from([False, False, False, True]),
        }
    ),
    min_size=1,
    max_size=40,
)


def write_log(rows: list[dict[str, int]]) -> bytes:
    offset, pieces = BASE, []
    for row in rows:
        offset += row["gap"]
        records = [NewRecord(None, b"x" * row["size"], row["time"]) for _ in range(row["records"])]
        has_producer = row["producer"] >= 0
        pieces.append(
            write_batch(
                records,
                base_offset=offset,
                partition_leader_epoch=0,
                attributes=TRANSACTIONAL_MASK if has_producer and row["is_transactional"] else 0,
                producer_id=row["producer"],
                producer_epoch=row["epoch"] if has_producer else -1,
                base_sequence=row["sequence"] if has_producer else -1,
            )
        )
        offset += row["records"]
    return b"".join(pieces)


Outcome = tuple[Indexed, list[ProducerState], int, bool, bool]


def index(log: bytes, interval: int, offsets: bytes, times: bytes, *, in_runs: bool) -> Outcome:
    with TemporaryDirectory() as directory:
        path = Path(directory) / f"{BASE:020d}.log"
        path.write_bytes(log)
        with open_source(path) as source:
            found, states = Indexed(BASE, len(log), BASE), ProducerStates()
            claims = Claims(BASE, offsets, times)
            accounting = IndexAccounting(BASE, interval, ENTRY_LIMIT)
            walk = scan_runs(source) if in_runs else scan(source)
            _IndexWalk(found, accounting, states, claims).run(walk)
            claims.end()
    return found, states.rows(), states.end_offset, claims.offsets_hold, claims.times_hold


@given(batches, st.integers(0, 1500), st.data())
def test_runs_give_the_entries_the_claims_and_the_producers_that_single_batches_give(
    rows: list[dict[str, int]], interval: int, data: st.DataObject
) -> None:
    log = write_log(rows)
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(log) - 1))
        log = log[:at] + bytes([log[at] ^ 1]) + log[at + 1 :]
    right, *_ = index(log, interval, b"", b"", in_runs=False)
    claimed = [bytes(right.offset_entries), bytes(right.time_entries)]
    for which, entry_size in ((0, 8), (1, 12)):
        if claimed[which] and data.draw(st.booleans()):
            at = data.draw(st.integers(0, len(claimed[which]) - 1))
            raw = bytearray(claimed[which])
            raw[at] ^= data.draw(st.sampled_from([1, 2, 128]))
            claimed[which] = bytes(raw[entry_size * data.draw(st.integers(0, 1)) :])
    expected = index(log, interval, *claimed, in_runs=False)
    assert index(log, interval, *claimed, in_runs=True) == expected


def test_a_time_entry_below_the_last_one_is_refused_in_runs_too() -> None:
    """A flipped bit of the first offset, which no checksum covers, puts all others below it."""
    plain = {"gap": 0, "records": 1, "size": 0, "producer": -1, "epoch": 0, "sequence": 0}
    log = bytearray(write_log([{**plain, "is_transactional": False, "time": time} for time in (0, 0, 1)]))
    log[4] ^= 1
    assert index(bytes(log), 0, b"", b"", in_runs=True) == index(bytes(log), 0, b"", b"", in_runs=False)
