"""The answers about consumer groups and what they have committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from kafkatool.engine.serve.access import Client
from kafkatool.engine.serve.catalog import Catalog
from kafkatool.engine.serve.committed import Commit, Committed
from kafkatool.engine.serve.groups import Coordinator, GroupError, GroupState, Join, session_seconds
from kafkatool.format.protocol.errors import ErrorCode
from kafkatool.format.protocol.frames import Request
from kafkatool.format.schema.layout import Tree

_LONGEST_METADATA = 4096
_METADATA_TOO_LARGE = 12

Rows = list[dict[str, Any]]


class GroupAnswers:
    """One method for each API, by its name."""

    def __init__(self, catalog: Callable[[], Catalog], committed: Committed) -> None:
        self._catalog = catalog
        self._committed = committed
        self.groups = Coordinator()

    def join_group(self, request: Request, client: Client) -> Tree:
        body = cast("dict[str, Any]", request.body)
        rebalance_ms = body.get("rebalanceTimeoutMs", -1)
        if rebalance_ms < 0:
            rebalance_ms = body["sessionTimeoutMs"]
        join = Join(
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
        try:
            joined = self.groups.join(join, lambda: client.pause(0))
        except GroupError as error:
            return {"errorCode": error.code, "memberId": error.member_id or join.member_id}
        members = [
            {
                "memberId": one.member_id,
                "groupInstanceId": one.join.instance_id,
                "metadata": one.join.protocols.get(joined.protocol, b""),
            }
            for one in joined.members
        ]
        return {
            "generationId": joined.generation,
            "protocolName": joined.protocol,
            "leader": joined.leader,
            "memberId": joined.member_id,
            "members": members,
        }

    def sync_group(self, request: Request, client: Client) -> Tree:
        body = cast("dict[str, Any]", request.body)
        given = {one["memberId"]: one["assignment"] for one in body["assignments"]}
        try:
            return {"assignment": self.groups.sync(*_who(body), given, lambda: client.pause(0))}
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
        return {
            "members": [
                {**one, "errorCode": self._leave(body["groupId"], one["memberId"], one["groupInstanceId"])}
                for one in body["members"]
            ]
        }

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
        entries: dict[tuple[str, int], Commit] = {}
        topics: list[Tree] = []
        for topic in body["topics"]:
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
        entries: dict[tuple[str, int], Commit],
    ) -> Tree:
        number, metadata = asked["partitionIndex"], asked["committedMetadata"]
        if not code and not client.principal.may_read(topic):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if not code and self._catalog().get(topic, number) is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not code and metadata is not None and len(metadata) > _LONGEST_METADATA:
            code = _METADATA_TOO_LARGE
        if not code:
            epoch = asked.get("committedLeaderEpoch", -1)
            entries[topic, number] = Commit(asked["committedOffset"], epoch, metadata)
        return {"partitionIndex": number, "errorCode": code}

    def offset_fetch(self, request: Request, client: Client) -> Tree:
        known = self._committed.fetch(str(request.body["groupId"]))
        asked = cast("Rows | None", request.body["topics"])
        wanted: dict[str, list[int]] = {}
        if asked is None:
            for topic, number in sorted(known):
                if client.principal.may_read(topic):
                    wanted.setdefault(topic, []).append(number)
        else:
            wanted = {one["name"]: one["partitionIndexes"] for one in asked}
        return {
            "topics": [
                {
                    "name": topic,
                    "partitions": [_committed(number, known.get((topic, number))) for number in numbers],
                }
                for topic, numbers in wanted.items()
            ]
        }

    def list_groups(self, request: Request, client: Client) -> Tree:
        known = dict.fromkeys(self._committed.groups(), "consumer") | self.groups.groups()
        return {"groups": [{"groupId": group, "protocolType": kind} for group, kind in sorted(known.items())]}

    def describe_groups(self, request: Request, client: Client) -> Tree:
        return {"groups": [self._described(str(one)) for one in cast("list[str]", request.body["groups"])]}

    def _described(self, group_id: str) -> Tree:
        group = self.groups.describe(group_id)
        if group is None or not group.members:
            is_known = group is not None or group_id in self._committed.groups()
            state = GroupState.EMPTY if is_known else GroupState.DEAD
            kind = "consumer" if is_known else ""
            return {"groupId": group_id, "groupState": str(state), "protocolType": kind}
        members: list[Tree] = [
            {
                "memberId": one.member_id,
                "groupInstanceId": one.join.instance_id,
                "clientId": one.join.client_id,
                "clientHost": f"/{one.join.host}",
                "memberMetadata": one.join.protocols.get(group.protocol, b""),
                "memberAssignment": one.assignment,
            }
            for one in group.members.values()
        ]
        return {
            "groupId": group_id,
            "groupState": str(group.state),
            "protocolType": group.protocol_type,
            "protocolData": group.protocol,
            "members": members,
        }


def _who(body: Tree) -> tuple[str, int, str, str | None]:
    said = cast("dict[str, Any]", body)
    return said["groupId"], said["generationId"], said["memberId"], said.get("groupInstanceId")


def _committed(number: int, commit: Commit | None) -> Tree:
    if commit is None:
        return {"partitionIndex": number, "metadata": ""}
    return {
        "partitionIndex": number,
        "committedOffset": commit.offset,
        "committedLeaderEpoch": commit.leader_epoch,
        "metadata": commit.metadata,
    }
