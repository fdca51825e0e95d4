"""The group coordinator: members come, wait for each other, are told who leads, fall silent, leave."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from kafkatool.engine.serve import groups
from kafkatool.engine.serve.groups import (
    GroupCoordinator,
    GroupError,
    GroupState,
    Join,
    Joined,
    WaitingClient,
)
from kafkatool.format.protocol.errors import ErrorCode

SECONDS = 90


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def a_join(
    member_id: str = "",
    *,
    group_id: str = "g",
    instance: str | None = None,
    protocols: dict[str, bytes] | None = None,
    kind: str = "consumer",
    needs_id: bool = False,
) -> Join:
    return Join(
        group_id=group_id,
        member_id=member_id,
        instance_id=instance,
        client_id="c",
        host="127.0.0.1",
        session_seconds=6,
        rebalance_seconds=20,
        protocol_type=kind,
        protocols=protocols or {"range": b"r", "sticky": b"s"},
        needs_id=needs_id,
    )


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    made = ThreadPoolExecutor(8)
    yield made
    made.shutdown(wait=False)


@pytest.fixture(autouse=True)
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "INITIAL_DELAY", 0.0)


def code_of(action: Callable[[], object]) -> ErrorCode:
    with pytest.raises(GroupError) as caught:
        action()
    return caught.value.code


def two_members(coordinator: GroupCoordinator, pool: ThreadPoolExecutor) -> tuple[Joined, Joined]:
    """A settled group of two; the first leads."""
    first = coordinator.join(a_join())
    later: Future[Joined] = pool.submit(coordinator.join, a_join(protocols={"sticky": b"2"}))
    while len((coordinator.describe("g") or groups.ConsumerGroup("g")).members) < 2:
        threading.Event().wait(0.01)
    again = coordinator.join(a_join(first.member_id))
    return again, later.result(SECONDS)


def test_the_first_member_leads_and_is_told_all_members(pool: ThreadPoolExecutor) -> None:
    coordinator = GroupCoordinator()
    first, second = two_members(coordinator, pool)
    assert first.generation == second.generation == 2
    assert first.leader == second.leader == first.member_id
    assert {one.member_id for one in first.members} == {first.member_id, second.member_id}
    assert second.members == []


def test_the_protocol_is_one_that_all_know(pool: ThreadPoolExecutor) -> None:
    first, second = two_members(GroupCoordinator(), pool)
    assert first.protocol == second.protocol == "sticky"


def test_every_member_gets_what_the_leader_assigned(pool: ThreadPoolExecutor) -> None:
    coordinator = GroupCoordinator()
    first, second = two_members(coordinator, pool)
    waiting = pool.submit(coordinator.sync, "g", 2, second.member_id, None, {})
    given = {first.member_id: b"mine", second.member_id: b"yours"}
    assert coordinator.sync("g", 2, first.member_id, None, given) == b"mine"
    assert waiting.result(SECONDS) == b"yours"
    group = coordinator.describe("g")
    assert group is not None
    assert group.state is GroupState.STABLE


def test_a_new_member_makes_the_others_join_again(pool: ThreadPoolExecutor) -> None:
    coordinator = GroupCoordinator()
    first = coordinator.join(a_join())
    coordinator.sync("g", 1, first.member_id, None, {first.member_id: b"all"})
    coordinator.heartbeat("g", 1, first.member_id, None)
    later = pool.submit(coordinator.join, a_join())
    while (coordinator.describe("g") or groups.ConsumerGroup("g")).state is not GroupState.PREPARING:
        threading.Event().wait(0.01)
    assert code_of(lambda: coordinator.heartbeat("g", 1, first.member_id, None)) == 27
    again = coordinator.join(a_join(first.member_id))
    assert later.result(SECONDS).generation == again.generation == 2


def test_a_member_that_falls_silent_is_gone_and_the_rest_join_again(pool: ThreadPoolExecutor) -> None:
    clock = Clock()
    coordinator = GroupCoordinator(clock)
    first, second = two_members(coordinator, pool)
    coordinator.sync("g", 2, first.member_id, None, {})
    clock.now += 5
    coordinator.heartbeat("g", 2, first.member_id, None)
    clock.now += 5
    assert code_of(lambda: coordinator.heartbeat("g", 2, first.member_id, None)) == 27
    assert code_of(lambda: coordinator.heartbeat("g", 2, second.member_id, None)) == 25
    assert coordinator.join(a_join(first.member_id)).generation == 3


class Impatient(WaitingClient):
    def is_gone(self) -> bool:
        return True


def test_a_member_that_hangs_up_while_it_waits_holds_nobody_up(pool: ThreadPoolExecutor) -> None:
    coordinator = GroupCoordinator()
    first = coordinator.join(a_join())
    assert code_of(lambda: coordinator.join(a_join(), Impatient())) == 25
    assert coordinator.join(a_join(first.member_id)).generation == 2


def test_the_last_who_leaves_leaves_an_empty_group() -> None:
    coordinator = GroupCoordinator()
    first = coordinator.join(a_join())
    coordinator.leave("g", first.member_id, None)
    group = coordinator.describe("g")
    assert group is not None
    assert group.state is GroupState.EMPTY
    assert code_of(lambda: coordinator.leave("g", first.member_id, None)) == 25
    assert code_of(lambda: coordinator.heartbeat("g", 1, first.member_id, None)) == 25


def test_a_client_without_an_id_is_sent_back_with_one() -> None:
    coordinator = GroupCoordinator()
    with pytest.raises(GroupError) as caught:
        coordinator.join(a_join(needs_id=True))
    assert caught.value.code == 79
    joined = coordinator.join(a_join(caught.value.member_id, needs_id=True))
    assert joined.member_id == caught.value.member_id


def test_a_newcomer_who_was_sent_back_makes_the_others_join_again_too(pool: ThreadPoolExecutor) -> None:
    coordinator = GroupCoordinator()
    first = coordinator.join(a_join())
    coordinator.sync("g", 1, first.member_id, None, {})
    with pytest.raises(GroupError) as caught:
        coordinator.join(a_join(needs_id=True))
    later = pool.submit(coordinator.join, a_join(caught.value.member_id, needs_id=True))
    while (coordinator.describe("g") or groups.ConsumerGroup("g")).state is not GroupState.PREPARING:
        threading.Event().wait(0.01)
    again = coordinator.join(a_join(first.member_id))
    assert later.result(SECONDS).generation == again.generation == 2


def test_a_follower_that_asks_again_with_nothing_new_disturbs_nobody(pool: ThreadPoolExecutor) -> None:
    coordinator = GroupCoordinator()
    first, second = two_members(coordinator, pool)
    coordinator.sync("g", 2, first.member_id, None, {})
    assert coordinator.join(a_join(second.member_id, protocols={"sticky": b"2"})).generation == 2


def test_an_instance_that_starts_again_takes_its_own_place() -> None:
    coordinator = GroupCoordinator()
    first = coordinator.join(a_join(instance="i"))
    again = coordinator.join(a_join(instance="i"))
    assert again.member_id != first.member_id
    assert len(again.members) == 1
    assert code_of(lambda: coordinator.heartbeat("g", 2, first.member_id, "i")) == 82


@pytest.mark.parametrize(
    ("join", "code"),
    [
        (a_join(group_id=""), ErrorCode.INVALID_GROUP_ID),
        (a_join("nobody"), ErrorCode.UNKNOWN_MEMBER_ID),
        (a_join(protocols={"other": b""}), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (a_join(kind="connect"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_what_does_not_fit_is_refused(join: Join, code: ErrorCode) -> None:
    coordinator = GroupCoordinator()
    coordinator.join(a_join())
    assert code_of(lambda: coordinator.join(join)) == code


def test_commits_come_from_members_or_for_groups_without_any() -> None:
    coordinator = GroupCoordinator()
    coordinator.check_commit("simple", -1, "", None)
    first = coordinator.join(a_join())
    coordinator.check_commit("g", 1, first.member_id, None)
    assert code_of(lambda: coordinator.check_commit("g", 0, first.member_id, None)) == 22
    assert code_of(lambda: coordinator.check_commit("g", -1, "", None)) == 25


def test_whoever_waits_is_told_when_the_server_ends(pool: ThreadPoolExecutor) -> None:
    coordinator = GroupCoordinator()
    coordinator.join(a_join())
    waiting = pool.submit(coordinator.join, a_join())
    while len((coordinator.describe("g") or groups.ConsumerGroup("g")).members) < 2:
        threading.Event().wait(0.01)
    coordinator.stop()
    with pytest.raises(GroupError):
        waiting.result(SECONDS)


def test_groups_beyond_the_limit_take_the_place_of_empty_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MOST_GROUPS", 2)
    coordinator = GroupCoordinator()
    one = coordinator.join(a_join(group_id="one"))
    coordinator.join(a_join(group_id="two"))
    assert code_of(lambda: coordinator.join(a_join(group_id="three"))) == 15
    coordinator.leave("one", one.member_id, None)
    coordinator.join(a_join(group_id="three"))
