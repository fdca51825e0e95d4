"""Turn a request into its answer, as a single read-only broker that leads every partition would."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from kafkatool.engine.cluster.effective_settings import SettingOrigin, Sources
from kafkatool.engine.cluster.view import TOPIC_RESOURCE
from kafkatool.engine.directory.locate import Search
from kafkatool.engine.serve.access import Client
from kafkatool.engine.serve.budget import Budget
from kafkatool.engine.serve.catalog import Catalog, Topic
from kafkatool.engine.serve.committed import Committed
from kafkatool.engine.serve.group_answers import GroupAnswers, Rows
from kafkatool.engine.serve.partitions import FileSlice, OutOfRangeError, ServedPartition, State
from kafkatool.engine.serve.segments import DamagedError
from kafkatool.errors import KafkatoolError
from kafkatool.format.names import topic_problem
from kafkatool.format.protocol.apis import APIS, ONLY_WITH_SASL, api_versions_answer
from kafkatool.format.protocol.errors import ErrorCode
from kafkatool.format.protocol.frames import Request
from kafkatool.format.schema.layout import Tree
from kafkatool.format.schema.writing import LazyRows

MOST_BYTES = 55 << 20  # per answer, as brokers do by default
LONGEST_WAIT = 30.0
_LONGEST_LARGE_WAIT = 1.0  # for a request that takes memory from others
_LOOK_AGAIN = 0.2
_BY_PARTITION, _BY_ABORT = 512, 160  # upper bound of the memory for each entry of an answer
_LATEST, _EARLIEST, _MAX_TIMESTAMP, _EARLIEST_LOCAL = -1, -2, -3, -4
_DEFAULT_SOURCE, _TOPIC_SOURCE, _SERVER_SOURCE = 5, 1, 4


Wanted = dict[str, dict[int, dict[str, Any]]]
"""By topic, then by partition number."""


class ServerReporter:
    """Receives the messages of a server; this base class drops them."""

    def say(self, message: str) -> None:
        """Report something the operator has to know."""

    def detail(self, message: str) -> None:
        """Report why a single connection ended."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The broker and cluster that this server claims to be."""

    cluster_id: str
    node_id: int


class Answers(GroupAnswers):
    """One method per API, named after it. Threads share it."""

    def __init__(
        self,
        catalog: Callable[[], Catalog],
        identity: Identity,
        committed: Committed,
        *,
        budget: Budget | None = None,
        follows: bool = False,
        has_sasl: bool = False,
        reporter: ServerReporter | None = None,
    ) -> None:
        self.budget = budget or Budget()
        super().__init__(catalog, committed, self.budget)
        self._identity = identity
        self._follows = follows
        self._keys = APIS.keys() if has_sasl else APIS.keys() - ONLY_WITH_SASL
        self._say = (reporter or ServerReporter()).say
        self._told: set[str] = set()

    def answer(self, request: Request, client: Client) -> Tree | None:
        """Return the body of the answer; None if there is no answer to give and the connection ends."""
        handler: Callable[[Request, Client], Tree | None] = getattr(self, request.api.name)
        return handler(request, client)

    def sasl_handshake(self, request: Request, client: Client) -> Tree:
        """Refuse: a client that gets here is logged in already, or needs no login."""
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
            names = [name for name in catalog.topics if client.principal.may_read(name)]
        else:
            names = list(dict.fromkeys(str(one["name"]) for one in asked))  # each once, as brokers do
        return {
            "brokers": [self._broker(client)],
            "clusterId": self._identity.cluster_id,
            "controllerId": self._identity.node_id,
            "topics": LazyRows(names, lambda name: self._named_topic(catalog, name, client)),
        }

    def _broker(self, client: Client) -> Tree:
        host, port = client.advertised
        return {"nodeId": self._identity.node_id, "host": host, "port": port}

    def _topic(self, topic: Topic) -> Tree:
        node = self._identity.node_id
        alike = {"leaderId": node, "replicaNodes": [node], "isrNodes": [node]}
        partitions = LazyRows(
            range(len(topic.partitions)), lambda number: {"partitionIndex": number, **alike}
        )
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
        asked = cast(Rows, request.body["resources"])
        resources = {(one["resourceType"], one["resourceName"]): one for one in asked}
        return {"results": LazyRows(resources.values(), lambda one: self._configs(catalog, one, client))}

    def _configs(self, catalog: Catalog, resource: dict[str, Any], client: Client) -> Tree:
        kind, name = int(resource["resourceType"]), str(resource["resourceName"])
        row: Tree = {"errorMessage": None, "resourceType": kind, "resourceName": name, "configs": []}
        if kind != TOPIC_RESOURCE:
            return row  # nothing is known of the broker that wrote these logs
        if not client.principal.may_read(name):
            return {**row, "errorCode": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        if name not in catalog.topics:
            return {**row, "errorCode": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        keys = cast("list[str] | None", resource["configurationKeys"])
        wanted = None if keys is None else set(keys)
        try:
            settings = Sources(cluster=catalog.cluster).of(name).settings
        except KafkatoolError as error:
            return {**row, "errorCode": ErrorCode.UNKNOWN_SERVER_ERROR, "errorMessage": str(error)}
        row["configs"] = [
            {
                "name": one.name,
                "value": None if one.value is None else one.text,
                "isDefault": one.origin is SettingOrigin.DEFAULT,
                "configSource": _SOURCES.get(one.origin, _SERVER_SOURCE),
                "readOnly": True,
                "documentation": None,
            }
            for one in settings.values()
            if wanted is None or one.name in wanted
        ]
        return row

    def find_coordinator(self, request: Request, client: Client) -> Tree:
        if request.body.get("keyType", 0) != 0:
            message = "there are no transactions here: kafkatool serve is read-only"
            return {"errorCode": ErrorCode.INVALID_REQUEST, "errorMessage": message, "nodeId": -1, "port": -1}
        return {"errorMessage": None, **self._broker(client)}

    # --- records --------------------------------------------------------------------------------------

    def fetch(self, request: Request, client: Client) -> Tree:
        body = request.body
        if cast(int, body.get("sessionId", 0)) or cast(int, body.get("sessionEpoch", -1)) > 0:
            return {"errorCode": ErrorCode.FETCH_SESSION_ID_NOT_FOUND}
        wanted = _wanted_partitions(body, client)
        longest = _LONGEST_LARGE_WAIT if client.share.is_large else LONGEST_WAIT
        end = time.monotonic() + min(cast(int, body["maxWaitMs"]) / 1000, longest)
        while True:
            responses: list[Tree] = []  # the previous round's are dropped
            size, is_done = self._read(body, wanted, client, responses)
            left = end - time.monotonic()
            if is_done or left <= 0 or size >= cast(int, body["minBytes"]):
                return {"responses": responses}
            if client.pause(min(left, _LOOK_AGAIN) if self._follows else left) or not self._follows:
                return {"responses": responses}

    def _read(self, body: Tree, wanted: Wanted, client: Client, topics: list[Tree]) -> tuple[int, bool]:
        """Read every requested partition; return the bytes of records, and whether to answer at once."""
        catalog = self._catalog()
        left = min(max(0, cast(int, body["maxBytes"])), MOST_BYTES)
        committed = body["isolationLevel"] == 1
        size, is_done = 0, not any(wanted.values())
        for topic, partitions in wanted.items():
            rows: list[Tree] = []
            for one in partitions.values():
                row = self._fetched(catalog, topic, one, client, left, committed, size == 0)
                records = row.get("records")
                found = records.size if isinstance(records, FileSlice) else 0
                size, left = size + found, max(0, left - found)
                is_done = is_done or bool(row.get("errorCode"))
                rows.append(row)
            topics.append({"topic": topic, "partitions": rows})
        return size, is_done

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
        row: Tree = {
            "partitionIndex": asked["partition"],
            "highWatermark": -1,
            "abortedTransactions": None,
            "records": b"",
        }
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
            client.share.claim(_BY_ABORT * len(found.aborted))
            row["abortedTransactions"] = LazyRows(
                found.aborted, lambda one: {"producerId": one[0], "firstOffset": one[1]}
            )
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
        """Report each problem once: a client retries forever."""
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
        wanted: dict[str, dict[int, Tree | None]] = {}
        for asked in cast(Rows, request.body["topics"]):
            client.share.claim(_BY_PARTITION * (1 + len(asked["partitions"])))
            partitions = wanted.setdefault(asked["name"], {})
            for one in asked["partitions"]:
                number = one["partitionIndex"]
                partitions[number] = None if number in partitions else one

        def row(topic: str, number: int, asked: dict[str, Any] | None) -> Tree:
            if asked is None:  # a duplicate: brokers answer it with an error too
                return {"partitionIndex": number, "errorCode": ErrorCode.INVALID_REQUEST}
            return self._offset(catalog, topic, asked, client, committed)

        def rows(topic: str) -> Tree:
            partitions = wanted[topic].items()
            return {"name": topic, "partitions": LazyRows(partitions, lambda one: row(topic, *one))}

        return {"topics": LazyRows(wanted, rows)}

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
        """Refuse to write; close the connection of a client that expects no answer."""
        if request.body["acks"] == 0:
            return None
        refused: Tree = {
            "errorCode": ErrorCode.POLICY_VIOLATION,
            "errorMessage": "kafkatool serve is read-only",
            "baseOffset": -1,
        }

        def rows(topic: dict[str, Any]) -> Tree:
            refusals = LazyRows(topic["partitionData"], lambda one: {"index": one["index"], **refused})
            return {"name": topic["name"], "partitionResponses": refusals}

        return {"responses": LazyRows(cast(Rows, request.body["topicData"]), rows)}


_SOURCES = {SettingOrigin.DEFAULT: _DEFAULT_SOURCE, SettingOrigin.TOPIC: _TOPIC_SOURCE}


def _wanted_partitions(body: Tree, client: Client) -> Wanted:
    """Return requests by topic and number, each once; the last one wins, as in brokers."""
    wanted: Wanted = {}
    for asked in cast(Rows, body["topics"]):
        client.share.claim(_BY_PARTITION * (1 + len(asked["partitions"])))
        wanted.setdefault(asked["topic"], {}).update({one["partition"]: one for one in asked["partitions"]})
    return wanted


def _by_time(partition: ServedPartition, state: State, when: int, limit: int) -> Tree:
    """Find the first record at or after a time, or the one with the greatest; empty if it is not visible."""
    segments = [one.segment for one in state.segments]
    search = Search(segments, partition.how.guest, state.log_start)
    found = search.latest() if when == _MAX_TIMESTAMP else search.time(when)
    if found is None or found.offset is None or found.offset >= limit:
        return {}
    return {"offset": found.offset, "timestamp": found.timestamp_ms}
