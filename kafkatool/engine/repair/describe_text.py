"""Read the output of `kafka-topics.sh --describe` as a snapshot of the cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kafkatool.engine.cluster.view import ClusterView, Replicas

# A terminal may have turned the tabs into spaces; a value may be missing.
_FIELD = re.compile(
    r"(TopicId|Topic|Partition|Leader|Adding Replicas|Removing Replicas|Replicas|Isr|LastKnownElr|Elr)"
    r": ?([^\s:]*)(?=\s|$)"
)
_NEEDED = {"Topic", "Partition", "Leader", "Replicas", "Isr"}


def read_description(lines: Iterable[str], taken_ms: int) -> ClusterView:
    """Read the lines; the view is unknown if none of them describes a partition."""
    view = ClusterView(last_ms=taken_ms)
    ids: dict[str, str] = {}
    for line in lines:
        fields = dict(_FIELD.findall(line))
        topic = fields.get("Topic")
        if topic and fields.get("TopicId"):
            ids[topic] = fields["TopicId"]
            view.topic_ids[fields["TopicId"]] = topic
        elif fields.keys() >= _NEEDED and fields["Partition"].isdecimal():
            topic_id = ids.setdefault(fields["Topic"], fields["Topic"])  # releases before 2.8 print no id
            view.topic_ids[topic_id] = fields["Topic"]
            view.partitions[topic_id, int(fields["Partition"])] = _replicas(fields, taken_ms)
            view.is_known = True
    return view


def _replicas(fields: dict[str, str], taken_ms: int) -> Replicas:
    leader = fields["Leader"]
    return Replicas(
        _nodes(fields["Replicas"]),
        _nodes(fields["Isr"]),
        int(leader) if leader.isdecimal() else -1,
        taken_ms,
        _nodes(fields.get("Elr", "")),
        last_known=_nodes(fields.get("LastKnownElr", "")),
    )


def _nodes(text: str) -> tuple[int, ...]:
    return tuple(int(one) for one in text.split(",") if one.isdecimal())
