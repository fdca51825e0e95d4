"""What the rest of a cluster makes of a broker that returns without some of its copies."""

from __future__ import annotations

import json

import pytest

from kafkatool.engine.cluster.view import ClusterView, Replicas
from kafkatool.engine.repair.describe_text import read_description
from kafkatool.engine.repair.reassigning import reassignments
from kafkatool.engine.repair.standing import objections_to_moving, objections_to_unmarking

NODE = 2
HEAD = "Topic: t\tTopicId: zEKza2DfRrWsB37ixIpObg\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: a=b,c=d"


def view(**partitions: Replicas) -> ClusterView:
    """Topics of one partition each."""
    ids = {f"id-{topic}": topic for topic in partitions}
    placed = {(f"id-{topic}", 0): replicas for topic, replicas in partitions.items()}
    return ClusterView(is_known=True, topic_ids=ids, partitions=placed)


def standing(
    leader: int,
    isr: tuple[int, ...],
    eligible: tuple[int, ...] = (),
    last_known: tuple[int, ...] = (),
    replicas: tuple[int, ...] = (1, 2, 3),
) -> Replicas:
    return Replicas(replicas, isr, leader, 0, eligible, last_known=last_known)


@pytest.mark.parametrize(
    ("replicas", "why"),
    [
        (standing(1, (1, 3)), None),
        (standing(1, (1,)), None),
        (standing(2, (2,)), "leads it"),
        (standing(1, (1, 2, 3)), "still counts as in sync"),
        (standing(-1, (2,)), "the last one in sync"),
        (standing(3, (3,), (2,)), "eligible to lead it"),
        (standing(-1, (), (3,), (2,)), "led it last"),
        (standing(-1, (), (3,)), "nobody leads it"),
        (standing(-1, (3,)), "nobody leads it"),
        (standing(-1, (), replicas=(1, 3)), None),
    ],
)
def test_a_copy_goes_only_where_others_have_all_of_it(replicas: Replicas, why: str | None) -> None:
    found = list(objections_to_moving(view(t=replicas), NODE, {("t", 0)}))
    assert len(found) == (why is not None)
    assert all(why is not None and why in one.why for one in found)


def test_a_partition_that_the_picture_lacks_is_refused() -> None:
    [found] = objections_to_moving(view(other=standing(1, (1,))), NODE, {("t", 0)})
    assert found.sentence == "t-0: the picture of the cluster does not show it"


@pytest.mark.parametrize(
    ("replicas", "is_bad"),
    [
        (standing(1, (1, 3)), False),
        (standing(-1, (), (2,), (3,)), True),  # the last known leader would be elected, and lacks records
        (standing(-1, (), (2,), (2,)), False),  # it is elected itself
        (standing(-1, (), (2, 3), (3,)), False),
        (standing(-1, (), (2,), (2,), (2,)), False),
        (standing(-1, (2,)), False),  # no eligible replicas are kept: the mark protects nothing
        (standing(2, (2,)), True),  # it leads: that was before it stopped
    ],
)
def test_the_other_partitions_of_the_broker_are_judged_too(replicas: Replicas, is_bad: bool) -> None:
    found = [*objections_to_moving(view(t=standing(1, (1, 3)), other=replicas), NODE, {("t", 0)})]
    assert [one.topic for one in found] == (["other"] if is_bad else [])


def test_what_hangs_on_the_broker_alone_is_said_before_its_mark_goes() -> None:
    known = view(
        alone=standing(2, (2,)), single=standing(2, (2,), replicas=(2,)), two=standing(2, (2, 3)),
        waiting=standing(2, (2,), (3,)), foreign=standing(1, (1,), replicas=(1, 3)),
    )  # fmt: skip
    assert [one.topic for one in objections_to_unmarking(known, NODE)] == ["alone"]


@pytest.mark.parametrize("tabs", ["\t", "   ", " "])
def test_the_text_of_kafka_topics_is_read_as_it_is_printed_or_pasted(tabs: str) -> None:
    lines = [
        HEAD,
        "\tTopic: t\tPartition: 0\tLeader: none\tReplicas: 2,3\tIsr: \tElr: 2,3\tLastKnownElr: 3",
        "\tTopic: t\tPartition: 1\tLeader: 3\tReplicas: 2,3\tIsr: 3\tElr: N/A\tLastKnownElr: N/A",
        "\tTopic: t\tPartition: 2\tLeader: 3\tReplicas: 2,3\tIsr: 3,2\tAdding Replicas: 1\tElr: ",
        "\tTopic: old\tPartition: 0\tLeader: 3\tReplicas: 3\tIsr: 3",
        "log4j:WARN something else: 1",
    ]
    found = read_description([line.replace("\t", tabs) for line in lines], 17)
    assert found.topic_ids == {"zEKza2DfRrWsB37ixIpObg": "t", "old": "old"}
    assert found.last_ms == 17
    assert list(found.partitions.values()) == [
        Replicas((2, 3), (), -1, 17, (2, 3), last_known=(3,)),
        Replicas((2, 3), (3,), 3, 17),
        Replicas((2, 3), (3, 2), 3, 17),
        Replicas((3,), (3,), 3, 17),
    ]


def test_text_of_something_else_is_no_picture() -> None:
    assert not read_description(["hello", "Topic: t"], 0).is_known


def test_a_partition_is_given_away_and_brought_back_in_its_old_order() -> None:
    ways = reassignments(view(t=standing(1, (1, 3))), NODE, [("t", 0)])
    assert ways is not None
    assert json.loads(ways.away)["partitions"] == [{"topic": "t", "partition": 0, "replicas": [1, 3]}]
    assert json.loads(ways.back)["partitions"] == [{"topic": "t", "partition": 0, "replicas": [1, 2, 3]}]
    assert reassignments(view(t=standing(2, (2,), replicas=(2,))), NODE, [("t", 0)]) is None
