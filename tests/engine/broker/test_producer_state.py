"""Sequences, duplicates, epochs, transactions: what a producer may write, and what is remembered of it."""

from __future__ import annotations

import pytest

from kafkatool.engine.broker.producer_state import (
    AppendOrigin,
    EndMarker,
    ProducerStates,
    StateBatch,
    read_marker,
    state_batch,
)
from kafkatool.engine.broker.refusals import (
    CoordinatorFenced,
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
)
from kafkatool.errors import FormatError
from kafkatool.format.batch import (
    CONTROL_MASK,
    MAX_INT32,
    TRANSACTIONAL_MASK,
    BatchHeader,
    NewRecord,
    read_header,
)
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.schema.control import write_control_key, write_end_marker

NOW = 1_700_000_000_000


def batch(
    offset: int, sequence: int = 0, *, count: int = 1, producer: int = 1, epoch: int = 0, attributes: int = 0
) -> StateBatch:
    header = BatchHeader(
        offset, 49, 0, 2, 0, attributes, count - 1, NOW, NOW + offset, producer, epoch, sequence, count
    )
    return StateBatch(header)


def transactional(offset: int, sequence: int = 0, *, producer: int = 1, epoch: int = 0) -> StateBatch:
    return batch(offset, sequence, producer=producer, epoch=epoch, attributes=TRANSACTIONAL_MASK)


def end(
    offset: int, *, abort: bool = True, producer: int = 1, epoch: int = 0, coordinator: int = 0
) -> StateBatch:
    flags = TRANSACTIONAL_MASK | CONTROL_MASK
    header = batch(offset, -1, producer=producer, epoch=epoch, attributes=flags).header
    return StateBatch(header, EndMarker(abort, coordinator, NOW + offset))


def states(*batches: StateBatch) -> ProducerStates:
    known = ProducerStates()
    for one in batches:
        known.replay(one)
    return known


def offer(
    known: ProducerStates, one: StateBatch, origin: AppendOrigin = AppendOrigin.CLIENT, version: int = 0
) -> None:
    list(known.apply(known.prepare([one], origin, version)))


def test_sequences_go_on_and_begin_again_at_zero_behind_the_largest() -> None:
    known = states(batch(0, MAX_INT32 - 1, count=2))
    with pytest.raises(OutOfOrderSequence):
        offer(known, batch(2, 1))
    offer(known, batch(2, 0))
    with pytest.raises(OutOfOrderSequence):
        offer(known, batch(3, 2))


def test_the_last_five_batches_are_known_again_and_the_sixth_is_out_of_order() -> None:
    known = states(*(batch(at, at) for at in range(6)))
    for at in range(1, 6):
        sent = known.prepare([batch(99, at)], AppendOrigin.CLIENT).duplicate
        assert sent is not None
        assert (sent.first_offset, sent.last_offset) == (at, at)
    with pytest.raises(OutOfOrderSequence):
        known.prepare([batch(99, 0)], AppendOrigin.CLIENT)
    # A follower takes what its leader has taken.
    assert known.prepare([batch(99, 0)], AppendOrigin.REPLICATION).duplicate is None


def test_a_producer_nobody_knows_may_begin_anywhere_and_a_new_epoch_only_at_zero() -> None:
    known = ProducerStates()
    offer(known, batch(0, 17))
    with pytest.raises(OutOfOrderSequence):
        offer(known, batch(1, 18, epoch=1))
    offer(known, batch(1, 0, epoch=1))
    with pytest.raises(InvalidProducerEpoch):
        offer(known, batch(2, 18))
    offer(known, batch(2, 18), AppendOrigin.REPLICATION)


def test_a_refused_batch_changes_nothing() -> None:
    known = states(transactional(0))
    before = known.rows()
    with pytest.raises(InvalidTxnState):
        known.prepare([transactional(1, 1), batch(2, 2)], AppendOrigin.CLIENT)
    assert known.rows() == before


def test_an_aborted_transaction_is_indexed_with_the_stable_offset_of_its_time() -> None:
    known = states(transactional(0), transactional(1, producer=2))
    assert known.first_unstable_offset(2) == 0
    assert known.replay(end(2)) == [(0, 1, 0, 2, 1)]
    assert known.replay(end(3, producer=2)) == [(0, 2, 1, 3, 4)]
    assert known.replay(end(4, producer=2)) == []


def test_a_decided_transaction_is_unstable_until_its_end_is_replicated() -> None:
    known = states(transactional(0), end(1, abort=False))
    assert known.first_unstable_offset(1) == 0
    assert known.first_unstable_offset(2) is None


def test_a_marker_of_an_old_coordinator_is_refused_unless_a_leader_took_it() -> None:
    known = states(transactional(0), end(1, coordinator=5), transactional(2, 1))
    with pytest.raises(CoordinatorFenced):
        offer(known, end(3, coordinator=4), AppendOrigin.COORDINATOR)
    offer(known, end(3, coordinator=4), AppendOrigin.REPLICATION)


def test_version_2_markers_need_a_higher_epoch_unless_they_are_written_again() -> None:
    known = states(transactional(0))
    with pytest.raises(InvalidProducerEpoch):
        offer(known, end(1), AppendOrigin.COORDINATOR, version=2)
    offer(known, end(1, epoch=1), AppendOrigin.COORDINATOR, version=2)
    offer(known, end(2, epoch=1), AppendOrigin.COORDINATOR, version=2)
    assert known.rows()[0].last_offset == -1


def test_a_snapshot_holds_the_last_batch_and_brings_it_back() -> None:
    known = states(batch(0, 0, count=3), batch(3, 3, count=2), transactional(5, producer=9, epoch=4))
    again = ProducerStates()
    again.load(known.rows(), 6, now_ms=None)
    assert again.rows() == known.rows()
    assert again.open_transactions == {5: 9}
    assert again.prepare([batch(99, 3, count=2)], AppendOrigin.CLIENT).duplicate is not None


def test_the_order_in_a_snapshot_is_that_of_javas_hash_map() -> None:
    known = states(*(batch(at, producer=producer) for at, producer in enumerate([17, 1, 33, 2, 1 << 32])))
    assert [row.producer_id for row in known.rows()] == [17, 1, 33, 1 << 32, 2]
    for at in range(20):
        known.replay(batch(50 + at, producer=100 + at))
    assert [row.producer_id for row in known.rows()][:3] == [1, 1 << 32, 2]


def test_idle_producers_expire_by_their_own_clock_but_not_inside_a_transaction() -> None:
    known = states(batch(0), transactional(1, producer=2))
    day = known.expiration_ms
    known.expire(NOW + day - 1)
    assert set(known.producers) == {1, 2}
    known.expire(NOW + day)
    assert set(known.producers) == {2}
    late = ProducerStates()
    late.load(states(batch(0)).rows(), 1, now_ms=NOW + day)
    assert late.producers == {}


def marker_bytes(key: bytes, value: bytes) -> bytes:
    flags = TRANSACTIONAL_MASK | CONTROL_MASK
    return write_batch([NewRecord(key, value, NOW)], producer_id=1, producer_epoch=0, attributes=flags)


def test_markers_are_read_from_their_batches() -> None:
    data = marker_bytes(*write_end_marker(False, 3))
    assert read_marker(read_header(data), data) == EndMarker(True, 3, NOW)
    odd = marker_bytes(write_control_key(2), b"")
    with pytest.raises(FormatError):
        state_batch(read_header(odd), odd)
