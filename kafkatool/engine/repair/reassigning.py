"""Plan how a running cluster moves partitions away and back, for its own tool."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import NamedTuple

from kafkatool.engine.cluster.view import ClusterView
from kafkatool.engine.repair.standing import standings
from kafkatool.format.names import TopicPartition


class Ways(NamedTuple):
    """Two plans for kafka-reassign-partitions.sh."""

    away: str
    back: str


def reassignments(view: ClusterView, node_id: int, keys: Collection[TopicPartition]) -> Ways | None:
    """Return plans without, and with, a node's copies; None if a partition has no other copy."""
    placed = {key: list(replicas.replicas) for key, replicas in standings(view) if key in keys}
    others = {key: [node for node in nodes if node != node_id] for key, nodes in placed.items()}
    if not others or not all(others.values()):
        return None
    return Ways(_json(others), _json(placed))


def _json(placed: dict[TopicPartition, list[int]]) -> str:
    rows = [
        {"topic": topic, "partition": number, "replicas": nodes} for (topic, number), nodes in placed.items()
    ]
    return json.dumps({"version": 1, "partitions": rows}, separators=(",", ":"))
