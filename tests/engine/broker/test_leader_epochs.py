"""The algebra of leader epochs, by the examples of the reference and of Kafka's own tests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkatool.engine.broker.leader_epochs import EpochEnd, LeaderEpochs
from kafkatool.format.state.checkpoint import EpochStart


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochStart(*entry) for entry in entries)


def test_the_end_of_an_epoch_is_the_start_of_the_next() -> None:
    known = epochs((0, 0), (1, 10), (2, 20))
    assert [known.end_offset_for(epoch, 30) for epoch in (0, 1, 2, 3, -1)] == [
        EpochEnd(0, 10),
        EpochEnd(1, 20),
        EpochEnd(2, 30),
        None,
        None,
    ]
    assert epochs((3, 50)).end_offset_for(1, 60) == EpochEnd(1, 50)
    assert epochs((0, 0), (2, 10)).end_offset_for(1, 60) == EpochEnd(0, 10)


def test_the_same_epoch_again_changes_nothing() -> None:
    known = epochs((0, 0))
    assert not known.assign(0, 5)
    assert known.assign(1, 5)
    assert known.entries == [(0, 0), (1, 5)]


def test_what_contradicts_a_new_epoch_goes() -> None:
    known = epochs((0, 0), (2, 10), (3, 20))
    assert known.assign(1, 15)
    assert known.entries == [(0, 0), (1, 15)]
    assert known.assign(4, 0)
    assert known.entries == [(4, 0)]


def test_the_ends_are_cut_as_the_log_is() -> None:
    known = epochs((0, 0), (1, 7))
    assert known.truncate_from_start(5)
    assert known.entries == [(0, 5), (1, 7)]
    assert known.truncate_from_end(7)
    assert not known.truncate_from_end(7)
    assert known.entries == [(0, 5)]
    gone = epochs((0, 0), (1, 7))
    gone.truncate_from_start(100)
    assert gone.entries == [(1, 100)]


def test_the_epoch_of_an_offset() -> None:
    known = epochs((1, 5), (3, 9))
    assert [known.epoch_at(offset) for offset in (4, 5, 8, 9, 99)] == [None, 1, 1, 3, 3]


steps = st.one_of(
    st.tuples(st.just("assign"), st.integers(0, 9), st.integers(0, 30)),
    st.tuples(st.just("end"), st.just(0), st.integers(0, 30)),
    st.tuples(st.just("start"), st.just(0), st.integers(0, 30)),
)


@given(st.lists(steps, max_size=12))
def test_both_numbers_rise_whatever_is_done(work: list[tuple[str, int, int]]) -> None:
    known = LeaderEpochs()
    for what, epoch, offset in work:
        if what == "assign":
            known.assign(epoch, offset)
        elif what == "end":
            known.truncate_from_end(offset)
        else:
            known.truncate_from_start(offset)
        starts = [entry.start_offset for entry in known.entries]
        assert starts == sorted(set(starts))
