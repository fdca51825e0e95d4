"""A request in, its answer out: what a single broker that leads everything and writes nothing would say."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from kafkatool.engine.cluster_view import TOPIC_RESOURCE
from kafkatool.engine.locate import Search
from kafkatool.engine.serve.access import Client
from kafkatool.engine.serve.catalog import Catalog, Topic
from kafkatool.engine.serve.committed import Committed
from kafkatool.engine.serve.group_answers import GroupAnswers, Rows
from kafkatool.engine.serve.partitions import FileSlice, OutOfRangeError, ServedPartition, State
from kafkatool.engine.serve.segments import DamagedError
from kafkatool.engine.settings import Origin, Sources
from kafkatool.errors import KafkatoolError
from kafkatool.format.names import topic_problem
from kafkatool.format.protocol.apis import APIS, ONLY_WITH_SASL, api_versions_answer
from kafkatool.format.protocol.errors import ErrorCode
from kafkatool.format.protocol.frames import Request
from kafkatool.format.schema.layout import Tree

MOST_BYTES = 55 << 20  # in one answer, as brokers do by default
LONGEST_WAIT = 30.0
_LOOK_AGAIN = 0.2
_LATEST, _EARLIEST, _MAX_TIMESTAMP, _EARLIEST_LOCAL = -1, -2, -3, -4
_DEFAULT_SOURCE, _TOPIC_SOURCE, _SERVER_SOURCE = 5, 1, 4


@dataclass(frozen=True, slots=True)
class Identity:
    """Which broker of which cluster we say that we are."""

    cluster_id: str
    node_id: int


class Answers(GroupAnswers):
    """One method for each API, by its name. Threads share it."""

    def __init__(
        self,
        catalog: Callable[[], Catalog],
        identity: Identity,
        committed: Committed,
        *,
        follows: bool = False,
        has_sasl: bool = False,
        say: Callable[[str], None] = lambda message: None,
    ) -> None:
        super().__init__(catalog, committed)
        self._identity = identity
        self._follows = follows
        self._keys = APIS.keys() if has_sasl else APIS.keys() - ONLY_WITH_SASL
        self._say = say
        self._told: set[str] = set()

    def answer(self, request: Request, client: Client) -> Tree | None:
        """The body of the answer; None where there is none to be given, and the connection ends."""
        handler: Callable[[Request, Client], Tree | None] = getattr(self, request.api.name)
        return handler(request, client)

    def sasl_handshake(self, request: Request, client: Client) -> Tree:
        """Whoever comes to this is in already, or needs no login."""
        return {"errorCode": ErrorCode.ILLEGAL_SASL_STATE}

    def sasl_authenticate(self, request: Request, client: Client) -> Tree:
        return {"errorCode": ErrorCode.ILLEGAL_SASL_STATE, "errorMessage": "there is nothing to log in to"}

    # --- what there is --------------------------------------------------------------------------------

    def api_versions(self, request: Request, client: Client) -> Tree:
        return api_versions_answer(self._keys)

    def metadata(self, request: Request, client: Client) -> Tree:
        catalog = self._catalog()
        asked = cast("Rows | None", request.body["topics"])
        if asked is None or (not asked and request.version == 0):
            topics = [
                self._topic(topic)
                for topic in catalog.topics.values()
                if client.principal.may_read(topic.name)
            ]
        else:
            topics = [self._named_topic(catalog, str(one["name"]), client) for one in asked]
        return {
            "brokers": [self._broker(client)],
            "clusterId": self._identity.cluster_id,
            "controllerId": self._identity.node_id,
            "topics": topics,
        }

    def _broker(self, client: Client) -> Tree:
        host, port = client.advertised
        return {"nodeId": self._identity.node_id, "host": host, "port": port}

    def _topic(self, topic: Topic) -> Tree:
        node = self._identity.node_id
        partitions: list[Tree] = [
            {"partitionIndex": number, "leaderId": node, "replicaNodes": [node], "isrNodes": [node]}
            for number in range(len(topic.partitions))
        ]
        return {"name": topic.name, "isInternal": topic.is_internal, "partitions": partitions}

    def _named_topic(self, catalog: Catalog, name: str, client: Client) -> Tree:
        if topic_problem(name) is not None:
            return {"name": name, "errorCode": ErrorCode.INVALID_TOPIC}
        if not client.principal.may_read(name):
            return {"name": name, "errorCode": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        topic = catalog.topics.get(name)
        if topic is None:
            return {"name": name, "errorCode": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        return self._topic(topic)

    def describe_cluster(self, request: Request, client: Client) -> Tree:
        host, port = client.advertised
        return {
            "clusterId": self._identity.cluster_id,
            "controllerId": self._identity.node_id,
            "brokers": [{"brokerId": self._identity.node_id, "host": host, "port": port}],
        }

    def describe_configs(self, request: Request, client: Client) -> Tree:
        catalog = self._catalog()
        return {
            "results": [self._configs(catalog, one, client) for one in cast(Rows, request.body["resources"])]
        }

    def _configs(self, catalog: Catalog, resource: dict[str, Any], client: Client) -> Tree:
        kind, name = int(resource["resourceType"]), str(resource["resourceName"])
        row: Tree = {"resourceType": kind, "resourceName": name, "configs": []}
        if kind != TOPIC_RESOURCE:
            return row  # of the broker that wrote all this nothing is known
        if not client.principal.may_read(name):
            return {**row, "errorCode": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        if name not in catalog.topics:
            return {**row, "errorCode": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        wanted = cast("list[str] | None", resource["configurationKeys"])
        try:
            settings = Sources(cluster=catalog.cluster).of(name).settings
        except KafkatoolError as error:
            return {**row, "errorCode": ErrorCode.UNKNOWN_SERVER_ERROR, "errorMessage": str(error)}
        row["configs"] = [
            {
                "name": one.name,
                "value": None if one.value is None else one.text,
                "isDefault": one.origin is Origin.DEFAULT,
                "configSource": _SOURCES.get(one.origin, _SERVER_SOURCE),
            }
            for one in settings.values()
            if wanted is None or one.name in wanted
        ]
        return row

    def find_coordinator(self, request: Request, client: Client) -> Tree:
        if request.body.get("keyType", 0) != 0:
            message = "there are no transactions here: kafkatool serve is read-only"
            return {"errorCode": ErrorCode.INVALID_REQUEST, "errorMessage": message, "nodeId": -1, "port": -1}
        return self._broker(client)

    # --- records --------------------------------------------------------------------------------------

    def fetch(self, request: Request, client: Client) -> Tree:
        body = request.body
        if cast(int, body.get("sessionId", 0)) or cast(int, body.get("sessionEpoch", -1)) > 0:
            return {"errorCode": ErrorCode.FETCH_SESSION_ID_NOT_FOUND}
        end = time.monotonic() + min(cast(int, body["maxWaitMs"]) / 1000, LONGEST_WAIT)
        while True:
            responses, size, is_done = self._read(body, client)
            left = end - time.monotonic()
            if is_done or left <= 0 or size >= cast(int, body["minBytes"]):
                return {"responses": responses}
            if client.pause(min(left, _LOOK_AGAIN) if self._follows else left) or not self._follows:
                return {"responses": responses}

    def _read(self, body: Tree, client: Client) -> tuple[list[Tree], int, bool]:
        """Every partition that was asked for, how many bytes of records, and whether to answer at once."""
        catalog = self._catalog()
        left = min(max(0, cast(int, body["maxBytes"])), MOST_BYTES)
        committed = body["isolationLevel"] == 1
        topics: list[Tree] = []
        size = 0
        for asked in cast(Rows, body["topics"]):
            rows: list[Tree] = []
            for one in asked["partitions"]:
                row = self._fetched(catalog, asked["topic"], one, client, left, committed, size == 0)
                records = row.get("records")
                found = records.size if isinstance(records, FileSlice) else 0
                size, left = size + found, max(0, left - found)
                rows.append(row)
            topics.append({"topic": asked["topic"], "partitions": rows})
        has_error = any(row.get("errorCode") for topic in topics for row in cast(Rows, topic["partitions"]))
        return topics, size, has_error or not any(topic["partitions"] for topic in topics)

    def _fetched(
        self,
        catalog: Catalog,
        topic: str,
        asked: dict[str, Any],
        client: Client,
        left: int,
        committed: bool,
        at_least_one: bool,
    ) -> Tree:
        row: Tree = {"partitionIndex": asked["partition"], "highWatermark": -1, "records": b""}
        partition, error = self._partition(catalog, topic, asked["partition"], client)
        if partition is None:
            return {**row, "errorCode": error}
        try:
            most = min(max(0, asked["partitionMaxBytes"]), left)
            found = partition.fetch(
                asked["fetchOffset"], most, committed=committed, at_least_one=at_least_one
            )
            state = partition.state()
        except OutOfRangeError:
            return {**row, "errorCode": ErrorCode.OFFSET_OUT_OF_RANGE}
        except DamagedError as damage:
            self._tell(partition, damage)
            return {**row, "errorCode": ErrorCode.CORRUPT_MESSAGE}
        except (OSError, KafkatoolError) as problem:
            self._tell(partition, problem)
            return {**row, "errorCode": ErrorCode.KAFKA_STORAGE_ERROR}
        row["highWatermark"] = state.high_watermark
        row["lastStableOffset"] = state.last_stable
        row["logStartOffset"] = state.log_start
        if committed:
            row["abortedTransactions"] = [
                {"producerId": producer_id, "firstOffset": first} for producer_id, first in found.aborted
            ]
        if found.records is not None:
            row["records"] = found.records
        return row

    def _partition(
        self, catalog: Catalog, topic: str, number: int, client: Client
    ) -> tuple[ServedPartition | None, ErrorCode]:
        if not client.principal.may_read(topic):
            return None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return catalog.get(topic, number), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _tell(self, partition: ServedPartition, problem: Exception) -> None:
        """Each thing once: a client asks for ever."""
        message = f"{partition.name}: {problem}"
        if isinstance(problem, DamagedError):
            following = problem.gap.damage.next_good_offset
            goes_on = "" if following is None else f", --skip-damage goes on at offset {following}"
            message += f": clients get an error here{goes_on}"
        if message not in self._told and len(self._told) < 10_000:
            self._told.add(message)
            self._say(message)

    def list_offsets(self, request: Request, client: Client) -> Tree:
        catalog = self._catalog()
        committed = request.body.get("isolationLevel", 0) == 1
        topics: list[Tree] = []
        for asked in cast(Rows, request.body["topics"]):
            rows = [
                self._offset(catalog, asked["name"], one, client, committed) for one in asked["partitions"]
            ]
            topics.append({"name": asked["name"], "partitions": rows})
        return {"topics": topics}

    def _offset(
        self, catalog: Catalog, topic: str, asked: dict[str, Any], client: Client, committed: bool
    ) -> Tree:
        row: Tree = {"partitionIndex": asked["partitionIndex"]}
        partition, error = self._partition(catalog, topic, asked["partitionIndex"], client)
        if partition is None:
            return {**row, "errorCode": error}
        try:
            state = partition.state()
            limit = partition.limit(state, committed)
            when = asked["timestamp"]
            if when == _LATEST:
                return {**row, "offset": limit}
            if when in (_EARLIEST, _EARLIEST_LOCAL):
                return {**row, "offset": state.log_start}
            if when < _MAX_TIMESTAMP:
                return {**row, "errorCode": ErrorCode.UNSUPPORTED_VERSION}
            return {**row, **_by_time(partition, state, when, limit)}
        except (OSError, KafkatoolError) as problem:
            self._tell(partition, problem)
            return {**row, "errorCode": ErrorCode.KAFKA_STORAGE_ERROR}

    def produce(self, request: Request, client: Client) -> Tree | None:
        """Nothing is written here; a client that wants no answer is shown the door."""
        if request.body["acks"] == 0:
            return None
        refused: Tree = {
            "errorCode": ErrorCode.POLICY_VIOLATION,
            "errorMessage": "kafkatool serve is read-only",
        }
        return {
            "responses": [
                {
                    "name": topic["name"],
                    "partitionResponses": [
                        {"index": one["index"], **refused} for one in topic["partitionData"]
                    ],
                }
                for topic in cast(Rows, request.body["topicData"])
            ]
        }


_SOURCES = {Origin.DEFAULT: _DEFAULT_SOURCE, Origin.TOPIC: _TOPIC_SOURCE}


def _by_time(partition: ServedPartition, state: State, when: int, limit: int) -> Tree:
    """The first record at or after a time, or the one with the greatest; nothing where it is not shown."""
    segments = [one.segment for one in state.segments]
    search = Search(segments, partition.how.guest, state.log_start)
    found = search.latest() if when == _MAX_TIMESTAMP else search.time(when)
    if found is None or found.offset is None or found.offset >= limit:
        return {}
    return {"offset": found.offset, "timestamp": found.timestamp_ms}
