"""The coordinator of consumer groups: who is a member, who leads, who reads what.

    Empty ──join──> Preparing ──all have joined, or time is up──> Syncing ──leader's SyncGroup──> Stable
                        ^────────────── a member joins, leaves or falls silent ───────────────────────┘

The members' subscriptions and the assignment that the leader computes are passed on unread. Join and sync
wait in the thread of their connection until the other members have come.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from kafkatool.engine.serve.budget import Account, memory_of
from kafkatool.format.protocol.errors import ErrorCode

MOST_GROUPS = 10_000
MOST_MEMBERS = 2_000
MOST_PENDING = 2_000
INITIAL_DELAY = 0.1  # so that consumers started together join the same generation
_SHORTEST_SESSION, _LONGEST_SESSION = 1.0, 1800.0
_LONGEST_REBALANCE = 600.0
_EMPTY_SECONDS = 600.0  # how long a group without members is remembered
_SILENT_SECONDS = 15.0  # members send a heartbeat every three seconds unless configured otherwise
_LOOK_FOR_ROOM_SECONDS = 1.0
_OF_GROUP, _OF_MEMBER, _OF_ID = 1024, 1024, 100  # bytes in memory


class GroupError(Exception):
    """The answer is this error code."""

    def __init__(self, code: ErrorCode, member_id: str = "") -> None:
        super().__init__(code.name)
        self.code = code
        self.member_id = member_id


class GroupState(StrEnum):
    """By the names that Kafka's own tools print."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    SYNCING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class Join:
    """The content of a JoinGroup request."""

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    session_seconds: float
    rebalance_seconds: float
    protocol_type: str
    protocols: dict[str, bytes]
    needs_id: bool
    """The client can be sent back with an id first, so that a lost answer leaves no phantom member behind."""


@dataclass(slots=True)
class Member:
    member_id: str
    join: Join
    last_seen: float
    is_waiting: bool = False
    assignment: bytes = b""
    generation: int = 0
    """The generation it is part of; 0 before its first."""


@dataclass(frozen=True, slots=True)
class Joined:
    """The answer to a join; only the leader gets the members."""

    generation: int
    protocol: str
    leader: str
    member_id: str
    members: list[Member]


@dataclass(slots=True)
class ConsumerGroup:
    group_id: str
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    members: dict[str, Member] = field(default_factory=dict)
    pending: dict[str, float] = field(default_factory=dict)
    deadline: float = 0.0
    not_before: float = 0.0
    touched: float = 0.0
    size: int = 0
    """The memory it takes."""

    def statics(self) -> dict[str, str]:
        """Return instance id -> member id."""
        return {one.join.instance_id: one.member_id for one in self.members.values() if one.join.instance_id}


class WaitingClient:
    """A client that waits for a group; this base class never leaves, and holds no memory."""

    def is_gone(self) -> bool:
        """Return whether the client hung up: it is then no longer a member."""
        return False

    def let_go(self) -> None:
        """Free the request, which only the group needs from now on: a later join may replace it."""


_PATIENT = WaitingClient()


class GroupCoordinator:
    """All groups, under one lock: the work done while holding it is small."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, kept: Account | None = None) -> None:
        self._clock = clock
        self._groups: dict[str, ConsumerGroup] = {}
        """In order of use, the most recently used last."""
        self._kept = kept or Account()
        self._size = 0
        self._is_full_until = 0.0
        self._changed = threading.Condition()
        self._is_stopping = False

    def stop(self) -> None:
        """Send every waiting client to look for another coordinator."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()

    # --- join -----------------------------------------------------------------------------------------

    def join(self, join: Join, waiting: WaitingClient = _PATIENT) -> Joined:
        """Join, or stay in, a group; return when the rebalance is over. Raises GroupError."""
        with self._changed:
            group_id = join.group_id
            self._make_room(self._growth(join), group_id)
            try:
                group = self._group(join)
                member = self._member(group, join)
                if self._is_settled(group, member, join):
                    return self._joined(group, member)
                member.join, member.is_waiting = join, True
            finally:
                self._weigh(group_id)
            del join
            waiting.let_go()
            if group.state is not GroupState.PREPARING:
                self._prepare(group)
            generation = group.generation
            while group.generation == generation and group.members.get(member.member_id) is member:
                self._complete_if_due(group)
                if group.generation == generation:
                    self._wait(group.not_before if _has_all(group) else group.deadline)
                    self._check_presence(group, member, waiting)
            if group.members.get(member.member_id) is not member:
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
            return self._joined(group, member)

    def _check_presence(self, group: ConsumerGroup, member: Member, waiting: WaitingClient) -> None:
        if waiting.is_gone():
            if group.members.get(member.member_id) is member:
                del group.members[member.member_id]
                self._after_loss(group)
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)

    def _group(self, join: Join) -> ConsumerGroup:
        if not join.group_id:
            raise GroupError(ErrorCode.INVALID_GROUP_ID)
        if not join.protocols or not join.protocol_type:
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        group = self._groups.setdefault(join.group_id, ConsumerGroup(join.group_id))
        self._touch(group)
        self._expire(group)
        others = [one for one in group.members.values() if one.member_id != join.member_id]
        if others:
            common = set(join.protocols).intersection(*(one.join.protocols for one in others))
            if group.protocol_type != join.protocol_type or not common:
                raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        group.protocol_type = join.protocol_type
        return group

    # --- memory ---------------------------------------------------------------------------------------

    def _touch(self, group: ConsumerGroup) -> None:
        """Mark the group as just used."""
        group.touched = self._clock()
        self._groups[group.group_id] = self._groups.pop(group.group_id, group)

    def _weigh(self, group_id: str) -> None:
        """Recompute the memory that one group takes."""
        group = self._groups.get(group_id)
        if group is not None:
            size = _size_of_group(group_id) + memory_of(*group.pending)
            size += sum(_size_of_member(one) for one in group.members.values())
            self._size += size - group.size
            group.size = size
        self._kept.resize(self._size)

    def _make_room(self, size: int, group_id: str) -> None:
        """Make room for a group to grow, dropping the groups unused for longest. Raises GroupError."""
        self._forget_old_ones()
        if self._has_room(size, group_id):
            return
        now = self._clock()
        if now < self._is_full_until:  # looked for room just now
            raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        for group in list(self._groups.values()):
            if group.group_id != group_id and _can_go(group, now):
                self._drop(group)
                if self._has_room(size, group_id):
                    return
        self._is_full_until = now + _LOOK_FOR_ROOM_SECONDS
        raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _growth(self, join: Join) -> int:
        """Return by how much its group grows; a repeated join adds nothing new."""
        group = self._groups.get(join.group_id)
        size = _size_of_join(join) + (_size_of_group(join.group_id) if group is None else 0)
        known = None if group is None else group.members.get(join.member_id)
        return size if known is None else max(0, size - _size_of_join(known.join))

    def _has_room(self, size: int, group_id: str) -> bool:
        is_new = group_id not in self._groups
        return not (is_new and len(self._groups) >= MOST_GROUPS) and self._kept.resize(self._size + size)

    def _forget_old_ones(self) -> None:
        """Drop groups that have had no members for a while."""
        long_ago = self._clock() - _EMPTY_SECONDS
        while self._groups:
            oldest = next(iter(self._groups.values()))
            if oldest.members or oldest.touched > long_ago:
                return
            self._drop(oldest)

    def _drop(self, group: ConsumerGroup) -> None:
        del self._groups[group.group_id]
        self._size -= group.size
        self._kept.resize(self._size)

    def _member(self, group: ConsumerGroup, join: Join) -> Member:
        """Return the member that joins, new or known."""
        now = self._clock()
        static = group.statics().get(join.instance_id) if join.instance_id else None
        if join.member_id:
            if static is not None and static != join.member_id:
                raise GroupError(ErrorCode.FENCED_INSTANCE_ID)
            known = group.members.get(join.member_id)
            if known is not None:
                known.last_seen = now
                return known
            if group.pending.pop(join.member_id, None) is None:
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
            return self._add(group, join.member_id, join)
        member_id = f"{join.instance_id or join.client_id or 'member'}-{uuid.uuid4()}"
        if static is not None:
            group.members.pop(static)  # the same instance, restarted
        elif join.needs_id and not join.instance_id:
            self._remember(group, member_id)
            raise GroupError(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        return self._add(group, member_id, join)

    def _remember(self, group: ConsumerGroup, member_id: str) -> None:
        if len(group.pending) >= MOST_PENDING:
            del group.pending[next(iter(group.pending))]
        group.pending[member_id] = self._clock()

    def _add(self, group: ConsumerGroup, member_id: str, join: Join) -> Member:
        if len(group.members) >= MOST_MEMBERS:
            raise GroupError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        member = group.members[member_id] = Member(member_id, join, self._clock())
        return member

    def _is_settled(self, group: ConsumerGroup, member: Member, join: Join) -> bool:
        """Check whether a member repeats its join with nothing new: it gets the same answer again."""
        if group.state not in (GroupState.SYNCING, GroupState.STABLE):
            return False
        is_leader = member.member_id == group.leader and group.state is GroupState.STABLE
        is_old = member.generation == group.generation
        return is_old and not is_leader and member.join.protocols == join.protocols

    def _prepare(self, group: ConsumerGroup) -> None:
        now = self._clock()
        was_empty = group.state is GroupState.EMPTY
        group.state = GroupState.PREPARING
        longest = max((one.join.rebalance_seconds for one in group.members.values()), default=0.0)
        group.deadline = now + min(longest, _LONGEST_REBALANCE)
        group.not_before = now + INITIAL_DELAY if was_empty else now
        self._changed.notify_all()

    def _complete_if_due(self, group: ConsumerGroup) -> None:
        if self._is_stopping:
            raise GroupError(ErrorCode.NOT_COORDINATOR)
        now = self._clock()
        if group.state is not GroupState.PREPARING:
            return
        if now >= group.deadline or (_has_all(group) and now >= group.not_before):
            self._complete(group, now)

    def _complete(self, group: ConsumerGroup, now: float) -> None:
        for member_id in [one.member_id for one in group.members.values() if not one.is_waiting]:
            del group.members[member_id]
        group.generation += 1
        if group.leader not in group.members:
            group.leader = next(iter(group.members), "")
        group.protocol = _common_protocol(group)
        group.state = GroupState.SYNCING if group.members else GroupState.EMPTY
        for member in group.members.values():
            member.is_waiting, member.last_seen, member.assignment = False, now, b""
            member.generation = group.generation
        self._weigh(group.group_id)
        self._changed.notify_all()

    def _joined(self, group: ConsumerGroup, member: Member) -> Joined:
        is_leader = member.member_id == group.leader
        return Joined(
            group.generation,
            group.protocol,
            group.leader,
            member.member_id,
            list(group.members.values()) if is_leader else [],
        )

    def _wait(self, until: float) -> None:
        self._changed.wait(max(0.001, min(1.0, until - self._clock())))

    # --- the others -----------------------------------------------------------------------------------

    def sync(
        self,
        group_id: str,
        generation: int,
        member_id: str,
        instance: str | None,
        given: dict[str, bytes],
        waiting: WaitingClient = _PATIENT,
    ) -> bytes:
        """Return the member's assignment once the leader has handed in all. Raises GroupError."""
        with self._changed:
            group, member = self._known(group_id, generation, member_id, instance)
            if group.state is GroupState.PREPARING:
                raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
            if group.state is GroupState.SYNCING and member_id == group.leader:
                self._assign(group, given)
            waiting.let_go()
            while group.state is GroupState.SYNCING and group.generation == generation:
                if self._is_stopping:
                    raise GroupError(ErrorCode.NOT_COORDINATOR)
                member.last_seen = self._clock()
                self._touch(group)  # a group with a waiting member is not dropped
                self._wait(self._clock() + 1.0)
                self._check_presence(group, member, waiting)
                self._expire(group)
            if group.state is not GroupState.STABLE or group.generation != generation:
                raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
            return member.assignment

    def _assign(self, group: ConsumerGroup, given: dict[str, bytes]) -> None:
        known = {name: given.get(name, b"") for name in group.members}
        self._make_room(memory_of(*known.values()), group.group_id)
        for name, assignment in known.items():
            group.members[name].assignment = assignment
        self._weigh(group.group_id)
        group.state = GroupState.STABLE
        self._changed.notify_all()

    def heartbeat(self, group_id: str, generation: int, member_id: str, instance: str | None) -> None:
        """Accept a heartbeat; raise GroupError if the member has to act."""
        with self._changed:
            group, _member = self._known(group_id, generation, member_id, instance)
            if group.state is GroupState.PREPARING:
                raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)

    def leave(self, group_id: str, member_id: str, instance: str | None) -> None:
        """Remove a member; raise GroupError for an unknown one."""
        with self._changed:
            group = self._groups.get(group_id)
            if group is None:
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
            if not member_id and instance:
                member_id = group.statics().get(instance, "")
            if group.pending.pop(member_id, None) is not None:
                self._weigh(group_id)
                return
            if group.members.pop(member_id, None) is None:
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
            self._after_loss(group)

    def check_commit(self, group_id: str, generation: int, member_id: str, instance: str | None) -> None:
        """Check that a commit comes from a member of this generation, or for a group without members.

        Raises GroupError otherwise.
        """
        with self._changed:
            if not group_id:
                raise GroupError(ErrorCode.INVALID_GROUP_ID)
            group = self._groups.get(group_id)
            if generation < 0 and not member_id and (group is None or not group.members):
                return
            self._known(group_id, generation, member_id, instance)

    def describe(self, group_id: str) -> ConsumerGroup | None:
        """Return a snapshot of one group."""
        with self._changed:
            group = self._groups.get(group_id)
            if group is None:
                return None
            self._expire(group)
            copy = ConsumerGroup(group_id, group.state, group.generation, group.protocol_type, group.protocol)
            copy.members = dict(group.members)
            return copy

    def groups(self) -> dict[str, str]:
        """Return group id -> protocol type."""
        with self._changed:
            return {group.group_id: group.protocol_type for group in self._groups.values() if group.members}

    def _known(
        self, group_id: str, generation: int, member_id: str, instance: str | None
    ) -> tuple[ConsumerGroup, Member]:
        if self._is_stopping:
            raise GroupError(ErrorCode.NOT_COORDINATOR)
        group = self._groups.get(group_id)
        if group is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        self._expire(group)
        static = group.statics().get(instance) if instance else None
        if static is not None and static != member_id:
            raise GroupError(ErrorCode.FENCED_INSTANCE_ID)
        member = group.members.get(member_id)
        if member is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        if generation != group.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)
        member.last_seen = self._clock()
        self._touch(group)
        return group, member

    def _expire(self, group: ConsumerGroup) -> None:
        """Remove members that were silent for too long; during a rebalance its own deadline counts."""
        if group.state is GroupState.PREPARING:
            self._complete_if_due(group)
            return
        now = self._clock()
        silent = [
            one.member_id
            for one in group.members.values()
            if not one.is_waiting and now - one.last_seen > one.join.session_seconds
        ]
        for member_id in silent:
            del group.members[member_id]
        if silent:
            self._after_loss(group)

    def _after_loss(self, group: ConsumerGroup) -> None:
        if not group.members:
            group.state, group.leader = GroupState.EMPTY, ""
            group.generation += 1
            self._is_full_until = 0.0
        elif group.state in (GroupState.STABLE, GroupState.SYNCING):
            self._prepare(group)
        self._weigh(group.group_id)
        self._changed.notify_all()


def _can_go(group: ConsumerGroup, now: float) -> bool:
    """Check whether the group has no members, or has been silent for so long that it seems so."""
    if not group.members:
        return True
    is_waited_in = any(one.is_waiting for one in group.members.values())
    return not is_waited_in and now - group.touched > _SILENT_SECONDS


def _size_of_group(group_id: str) -> int:
    return _OF_GROUP + memory_of(group_id)


def _size_of_join(join: Join) -> int:
    names = (join.group_id, join.member_id, join.instance_id, join.client_id, join.protocol_type)
    # A client without an id is given one made from its other names.
    given = 4 * (len(join.instance_id or join.client_id) + _OF_ID)
    return _OF_MEMBER + given + memory_of(*names, *join.protocols, *join.protocols.values())


def _size_of_member(member: Member) -> int:
    return _size_of_join(member.join) + memory_of(member.assignment)


def _has_all(group: ConsumerGroup) -> bool:
    return all(one.is_waiting for one in group.members.values())


def _common_protocol(group: ConsumerGroup) -> str:
    """Return the leader's first protocol that all other members support too."""
    if not group.members:
        return ""
    common = set.intersection(*(set(one.join.protocols) for one in group.members.values()))
    return next((name for name in group.members[group.leader].join.protocols if name in common), "")


def session_seconds(milliseconds: int) -> float:
    """Return the time a client asks for, within limits."""
    return min(max(milliseconds / 1000, _SHORTEST_SESSION), _LONGEST_SESSION)
