"""Which unchanged segments are read again, run after run."""

from __future__ import annotations

from kafkatool.engine.verify.rechecking import DAY_MS, OLDER_THAN_MS, Recheck, Verified

NOW = 1_700_000_000_000


def nights(count: int, sizes: list[int], **options: float) -> list[int]:
    """The age in days at which each segment was at its oldest, over many runs of one a day."""
    read_at = [NOW] * len(sizes)
    oldest = [0] * len(sizes)
    for night in range(1, count):
        now = NOW + night * DAY_MS
        known = [Verified(at, size, read_at[at]) for at, size in enumerate(sizes)]
        due = Recheck(now, **options).due(known)  # type: ignore[arg-type]
        for at in range(len(sizes)):
            oldest[at] = max(oldest[at], (now - read_at[at]) // DAY_MS)
            if at in due:
                read_at[at] = now
    return oldest


def test_everything_comes_round_before_it_is_too_old() -> None:
    assert max(nights(100, [1000] * 250)) <= 27
    assert max(nights(100, [1] * 40 + [5000, 3] * 20)) <= OLDER_THAN_MS // DAY_MS


def test_a_night_reads_its_share_and_the_oldest_first() -> None:
    known = [Verified(at, 100, NOW - at * DAY_MS) for at in range(20)]
    assert Recheck(NOW, None, 0.1).due(known) == {19, 18}
    assert Recheck(NOW, 18 * DAY_MS, 0).due(known) == {19, 18}
    assert Recheck(NOW, None, 0).due(known) == set()


def test_what_was_just_read_is_left_however_large_the_share() -> None:
    assert Recheck(NOW, None, 1.0).due([Verified("a", 100, NOW - 1000)]) == set()


def test_what_has_no_date_comes_first_but_not_all_at_once() -> None:
    known = [Verified(at, 100, None) for at in range(50)] + [Verified("old", 100, NOW - 20 * DAY_MS)]
    due = Recheck(NOW).due(known)
    assert len(due) == 3
    assert "old" not in due


def test_a_date_in_the_future_is_no_date() -> None:
    assert Recheck(NOW).due([Verified("a", 100, NOW + 1)]) == {"a"}
