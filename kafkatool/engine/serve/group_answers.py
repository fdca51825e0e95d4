"""The answers about consumer groups and what they have committed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from kafkatool.engine.serve.access import Client
from kafkatool.engine.serve.budget import Account, Budget, memory_of
from kafkatool.engine.serve.catalog import Catalog
from kafkatool.engine.serve.committed import Commit, Committed
from kafkatool.engine.serve.groups import (
    GroupCoordinator,
    GroupError,
    GroupState,
    Join,
    WaitingClient,
    session_seconds,
)
from kafkatool.format.names import TopicPartition
from kafkatool.format.protocol.errors import ErrorCode
from kafkatool.format.protocol.frames import Request
from kafkatool.format.schema.layout import Tree
from kafkatool.format.schema.writing import LazyRows

_LONGEST_METADATA = 4096
_METADATA_TOO_LARGE = 12
_BY_PARTITION = 512  # upper bound of the memory for each entry of an answer

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class _WaitingForAnswer(WaitingClient):
    """A client that may wait long for a group: its request is freed, only `kept_bytes` stay taken."""

    client: Client
    request: list[dict[str, Any]]
    kept_bytes: int

    def is_gone(self) -> bool:
        return self.client.pause(0)

    def let_go(self) -> None:
        for part in self.request:
            part.clear()
        self.client.share.keep(self.kept_bytes)


class GroupAnswers:
    """One method per API, named after it."""

    def __init__(self, catalog: Callable[[], Catalog], committed: Committed, budget: Budget) -> None:
        self._catalog = catalog
        self._committed = committed
        self.groups = GroupCoordinator(kept=Account(budget))

    def join_group(self, request: Request, client: Client) -> Tree:
        member_id = cast(str, request.body["memberId"])
        waiting = _WaitingForAnswer(client, [request.body], memory_of(member_id, request.client_id))
        try:
            joined = self.groups.join(_join(request, client), waiting)
        except GroupError as error:
            return {"errorCode": error.code, "memberId": error.member_id or member_id}
        members = LazyRows(
            joined.members,
            lambda one: {
                "memberId": one.member_id,
                "groupInstanceId": one.join.instance_id,
                "metadata": one.join.protocols.get(joined.protocol, b""),
            },
        )
        return {
            "generationId": joined.generation,
            "protocolName": joined.protocol,
            "leader": joined.leader,
            "memberId": joined.member_id,
            "members": members,
        }

    def sync_group(self, request: Request, client: Client) -> Tree:
        group_id, _generation, member_id, instance = who = _who(request.body)
        given = {one["memberId"]: one["assignment"] for one in cast(Rows, request.body["assignments"])}

        kept = memory_of(group_id, member_id, instance, request.client_id)
        waiting = _WaitingForAnswer(client, [request.body, given], kept)
        try:
            return {"assignment": self.groups.sync(*who, given, waiting)}
        except GroupError as error:
            return {"errorCode": error.code}

    def heartbeat(self, request: Request, client: Client) -> Tree:
        try:
            self.groups.heartbeat(*_who(request.body))
        except GroupError as error:
            return {"errorCode": error.code}
        return {}

    def leave_group(self, request: Request, client: Client) -> Tree:
        body = cast("dict[str, Any]", request.body)
        if request.version < 3:
            return {"errorCode": self._leave(body["groupId"], body["memberId"], None)}

        def row(one: dict[str, Any]) -> Tree:
            code = self._leave(body["groupId"], one["memberId"], one["groupInstanceId"])
            return {**one, "errorCode": code}

        return {"members": LazyRows(cast(Rows, body["members"]), row)}

    def _leave(self, group: str, member_id: str, instance: str | None) -> ErrorCode:
        try:
            self.groups.leave(group, member_id, instance)
        except GroupError as error:
            return error.code
        return ErrorCode.NONE

    def offset_commit(self, request: Request, client: Client) -> Tree:
        body = cast("dict[str, Any]", request.body)
        code = ErrorCode.NONE
        try:
            generation, member = body["generationIdOrMemberEpoch"], body["memberId"]
            self.groups.check_commit(body["groupId"], generation, member, body.get("groupInstanceId"))
        except GroupError as error:
            code = error.code
        entries: dict[TopicPartition, Commit] = {}
        topics: list[Tree] = []
        for topic in body["topics"]:
            client.share.claim(_BY_PARTITION * (1 + len(topic["partitions"])))
            rows = [self._take(topic["name"], one, code, client, entries) for one in topic["partitions"]]
            topics.append({"name": topic["name"], "partitions": rows})
        if entries and not self._committed.commit(body["groupId"], entries):
            for topic in cast(Rows, topics):
                topic["partitions"] = [
                    {**one, "errorCode": ErrorCode.POLICY_VIOLATION} for one in topic["partitions"]
                ]
        return {"topics": topics}

    def _take(
        self,
        topic: str,
        asked: dict[str, Any],
        code: int,
        client: Client,
        entries: dict[TopicPartition, Commit],
    ) -> Tree:
        number, metadata = asked["partitionIndex"], asked["committedMetadata"]
        if not code and not client.principal.may_read(topic):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        known = None if code else self._catalog().get(topic, number)
        if not code and known is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not code and metadata is not None and len(metadata) > _LONGEST_METADATA:
            code = _METADATA_TOO_LARGE
        if not code and known is not None:
            epoch = asked.get("committedLeaderEpoch", -1)
            entries[known.topic, number] = Commit(asked["committedOffset"], epoch, metadata)
        return {"partitionIndex": number, "errorCode": code}

    def offset_fetch(self, request: Request, client: Client) -> Tree:
        group = str(request.body["groupId"])
        asked = cast("Rows | None", request.body["topics"])
        wanted: dict[str, dict[int, None]] = {}
        if asked is None:
            for topic, number in self._committed.places(group):
                if client.principal.may_read(topic):
                    wanted.setdefault(topic, {})[number] = None
            client.share.claim(_BY_PARTITION * sum(map(len, wanted.values())))
        else:
            for one in asked:
                client.share.claim(_BY_PARTITION * (1 + len(one["partitionIndexes"])))
                wanted.setdefault(one["name"], {}).update(dict.fromkeys(one["partitionIndexes"]))

        def row(topic: str, number: int) -> Tree:
            if not client.principal.may_read(topic):
                return {
                    "partitionIndex": number,
                    "errorCode": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    "committedOffset": -1,
                    "metadata": "",
                }
            return _committed(number, self._committed.get(group, topic, number))

        def rows(topic: str) -> Tree:
            return {"name": topic, "partitions": LazyRows(wanted[topic], lambda number: row(topic, number))}

        return {"topics": LazyRows(wanted, rows)}

    def list_groups(self, request: Request, client: Client) -> Tree:
        known = dict.fromkeys(self._committed.groups(), "consumer") | self.groups.groups()
        client.share.claim(_BY_PARTITION * len(known))
        listed = sorted(known.items())
        return {"groups": LazyRows(listed, lambda one: {"groupId": one[0], "protocolType": one[1]})}

    def describe_groups(self, request: Request, client: Client) -> Tree:
        wanted = dict.fromkeys(cast("list[str]", request.body["groups"]))
        return {"groups": LazyRows(wanted, self._described)}

    def _described(self, group_id: str) -> Tree:
        group = self.groups.describe(group_id)
        if group is None or not group.members:
            is_known = group is not None or self._committed.knows(group_id)
            state = GroupState.EMPTY if is_known else GroupState.DEAD
            kind = "consumer" if is_known else ""
            return {"groupId": group_id, "groupState": str(state), "protocolType": kind}
        members = LazyRows(
            group.members.values(),
            lambda one: {
                "memberId": one.member_id,
                "groupInstanceId": one.join.instance_id,
                "clientId": one.join.client_id,
                "clientHost": f"/{one.join.host}",
                "memberMetadata": one.join.protocols.get(group.protocol, b""),
                "memberAssignment": one.assignment,
            },
        )
        return {
            "groupId": group_id,
            "groupState": str(group.state),
            "protocolType": group.protocol_type,
            "protocolData": group.protocol,
            "members": members,
        }


def _join(request: Request, client: Client) -> Join:
    body = cast("dict[str, Any]", request.body)
    rebalance_ms = body.get("rebalanceTimeoutMs", -1)
    if rebalance_ms < 0:
        rebalance_ms = body["sessionTimeoutMs"]
    return Join(
        group_id=body["groupId"],
        member_id=body["memberId"],
        instance_id=body.get("groupInstanceId"),
        client_id=request.client_id or "",
        host=client.host,
        session_seconds=session_seconds(body["sessionTimeoutMs"]),
        rebalance_seconds=session_seconds(rebalance_ms),
        protocol_type=body["protocolType"],
        protocols={one["name"]: one["metadata"] for one in body["protocols"]},
        needs_id=request.version >= 4,
    )


def _who(body: Tree) -> tuple[str, int, str, str | None]:
    said = cast("dict[str, Any]", body)
    return said["groupId"], said["generationId"], said["memberId"], said.get("groupInstanceId")


def _committed(number: int, commit: Commit | None) -> Tree:
    if commit is None:
        return {"partitionIndex": number, "committedOffset": -1, "metadata": ""}
    return {
        "partitionIndex": number,
        "committedOffset": commit.offset,
        "committedLeaderEpoch": commit.leader_epoch,
        "metadata": commit.metadata,
    }
