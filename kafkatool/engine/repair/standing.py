"""Check what happens to acknowledged records when a broker returns without some of its copies.

Two rules decide (Kafka 4.3, and 3.9 with eligible leader replicas):

- Without the clean shutdown marker, a returning broker is removed from the in-sync and the eligible replicas
  of all its partitions, if the cluster keeps eligible ones. A node that is the only last known leader is
  elected all the same, even with an empty log.
- If the cluster keeps none, the marker protects nothing: the last in-sync replica leads, even with an empty
  log.

So the snapshot of the cluster must be taken after the broker stopped: before, it shows the broker in sync.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from kafkatool.engine.cluster.view import ClusterView, Replicas
from kafkatool.format.names import TopicPartition


class Objection(NamedTuple):
    """Why a partition may lose acknowledged records."""

    topic: str
    partition: int
    why: str

    @property
    def sentence(self) -> str:
        return f"{self.topic}-{self.partition}: {self.why}"


def objections_to_moving(
    view: ClusterView, node_id: int, moved: Collection[TopicPartition]
) -> Iterator[Objection]:
    """Yield why copies must not be taken from a stopped broker, by a snapshot of the cluster without it."""
    shown = set()
    for key, replicas in standings(view):
        why = None
        if key in moved:
            shown.add(key)
            why = _against_moving(replicas, node_id)
        elif replicas.leader == node_id:
            why = f"node {node_id} leads it: this picture was taken before the broker stopped"
        elif is_only_eligible(replicas, node_id):
            why = _unmarked(node_id)
        if why is not None:
            yield Objection(*key, why)
    for topic, partition in sorted(set(moved) - shown):
        yield Objection(topic, partition, "the picture of the cluster does not show it")


def objections_to_unmarking(view: ClusterView, node_id: int) -> Iterator[Objection]:
    """Yield the partitions that depend on a broker alone, by its own metadata when it stopped.

    Without the clean shutdown marker the cluster does not count on it when it returns.
    """
    for key, replicas in standings(view):
        others = {*replicas.isr, *replicas.eligible} - {node_id}
        if node_id in replicas.replicas and len(replicas.replicas) > 1 and not others:
            yield Objection(*key, f"no other node than {node_id} was in sync or eligible to lead it")


def standings(view: ClusterView) -> Iterator[tuple[TopicPartition, Replicas]]:
    """Yield every partition by topic and number."""
    for (topic_id, partition), replicas in sorted(view.partitions.items()):
        topic = view.topic_ids.get(topic_id)
        if topic is not None:
            yield (topic, partition), replicas


def is_only_eligible(replicas: Replicas, node_id: int) -> bool:
    """Return whether only this node may lead a replicated partition; the last known leader may anyway."""
    if node_id not in replicas.eligible or replicas.replicas == (node_id,):
        return False
    return {*replicas.isr, *replicas.eligible} == {node_id} and replicas.last_known != (node_id,)


def _unmarked(node_id: int) -> str:
    return (
        f"node {node_id} is the only one that is eligible to lead it, and is not any more when it returns "
        "without the mark of a clean shutdown"
    )


def _against_moving(replicas: Replicas, node_id: int) -> str | None:
    if node_id not in replicas.replicas:
        return None  # the cluster does not count on this copy
    if replicas.leader == node_id:
        return f"node {node_id} leads it: stop the broker, then take the picture of the cluster"
    if node_id in replicas.isr and len(replicas.isr) > 1:
        return (
            f"node {node_id} still counts as in sync: take the picture when the cluster has noticed its end"
        )
    if node_id in replicas.isr:
        return f"node {node_id} is the last one in sync: nobody else has all of it"
    if node_id in replicas.eligible:
        return f"node {node_id} is eligible to lead it: fewer than min.insync.replicas others are in sync"
    if node_id in replicas.last_known:
        return f"node {node_id} led it last: it would be elected again, and be empty"
    if not replicas.isr or replicas.leader < 0:
        return "nobody leads it: there is nobody to fetch it from"
    return None
