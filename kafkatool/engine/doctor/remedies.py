"""Give a remedy, as a command where there is one, for each thing that keeps a broker from starting."""

from __future__ import annotations

import os
from collections import Counter

from kafkatool.engine.advice.table import Advice, Placeholder
from kafkatool.engine.broker.owner_checks import holds_metadata
from kafkatool.engine.directory.log_dir import Partition
from kafkatool.engine.doctor.brokers import Broker
from kafkatool.engine.recover.broker_start import BrokerStart
from kafkatool.engine.recover.start_checks import StartProblem
from kafkatool.engine.verify.finding import fetch_again
from kafkatool.format import kinds
from kafkatool.format.kinds import FileKind, kind_of

# What happens at a start without the file; a shell takes the text after # as a comment.
_WITHOUT = {
    kinds.RECOVERY_POINTS: "without it a broker scans every log of the directory",
    kinds.LOG_STARTS: "without it logs start at their first segment: deleted records may come back",
    kinds.HIGH_WATERMARKS: "without it a broker begins at the log starts, and soon knows better",
    kinds.CLEANER_OFFSETS: "without it a broker cleans from the start of each log",
    kinds.QUORUM_STATE: "without it a node goes by the epoch of its log",
    kinds.BOOTSTRAP: "without it a node goes by its metadata log",
    kinds.LEADER_EPOCHS: "without it a broker makes one of the segments that it scans",
    kinds.PRODUCER_SNAPSHOT: "without it a broker replays more of the log",
}
_WITHOUT_VOTE = (
    "without it a node goes by the epoch of its log and may vote again: only while the others have a leader"
)


def for_the_top(problem: StartProblem, broker: Broker, start: BrokerStart) -> str:
    """Return what to do about something at the top of a log directory."""
    if os.path.isdir(problem.path):
        if problem.other is not None:
            return Advice.SET_ASIDE_COPY(where=problem.path, other=problem.other)
        return Advice.MOVE_OUT(file=problem.path)
    kind = kind_of(os.path.basename(problem.path)).kind
    if kind is kinds.QUORUM_STATE and not broker.is_alone:
        return f"{Advice.FORGET_VOTE(file=problem.path)}  # {_WITHOUT_VOTE}"
    if kind in _WITHOUT:
        return do_without(problem.path, kind)
    if not os.path.exists(problem.path):
        return _write_owner(problem.path, broker, start) or _new_owner(problem.path, broker)
    return Advice.LIST(where=os.path.dirname(problem.path))


def _new_owner(path: str, broker: Broker) -> str:
    """Return how to format a directory; not for a controller whose new id would make it a new voter."""
    log_dir = next(one for one in broker.log_dirs if one.path == os.path.dirname(path))
    if holds_metadata(log_dir) and broker.setting("controller.quorum.voters") is None:
        return Advice.LIST(where=log_dir.path)
    return format_directory(broker)


def format_directory(broker: Broker) -> str:
    """Return how to give an owner to directories without one; the others stay as they are."""
    cluster = broker.meta.cluster_id if broker.meta is not None else None
    config = broker.configuration.path if broker.configuration is not None else None
    return Advice.FORMAT(
        cluster=cluster or Placeholder("<CLUSTER_ID>"), config=config or Placeholder("<SERVER_PROPERTIES>")
    )


def _write_owner(path: str, broker: Broker, start: BrokerStart) -> str | None:
    """Return how to restore meta.properties from the metadata's partition records; None if they lack it.

    With a new id the cluster would take it for another directory, and a controller for another voter.
    """
    log_dir = next(one for one in broker.log_dirs if one.path == os.path.dirname(path))
    node, cluster = broker.node_id, None if broker.meta is None else broker.meta.cluster_id
    placed = (start.replicas_at(one.path) for one in log_dir.partitions)
    ids = Counter(one.directory_of(node) for one in placed if one is not None)
    ids.pop(None, None)
    if not ids or node is None:
        return None
    return Advice.WRITE_OWNER(
        cluster=cluster or Placeholder("<CLUSTER_ID>"),
        node=node,
        directory=ids.most_common(1)[0][0],
        file=path,
    )


def do_without(path: str, kind: FileKind) -> str:
    return f"{Advice.DO_WITHOUT(file=path)}  # {_WITHOUT[kind]}"


def for_a_file(path: str, partition: Partition, start: BrokerStart, node_id: int | None) -> str:
    """Return what to do about a file of a partition that a broker cannot get past."""
    replicas = start.replicas_at(partition.path)
    if replicas is not None and node_id is not None:
        better = fetch_again(partition.path, replicas, node_id)
        if better is not None:
            return better
    kind = kind_of(os.path.basename(path)).kind
    if kind is kinds.PARTITION_METADATA:
        return write_topic_id(partition, start) or Advice.SHOW_FILE(file=path)
    if kind in _WITHOUT and os.path.isfile(path):
        return do_without(path, kind)
    return Advice.VERIFY(where=partition.path)


def write_topic_id(partition: Partition, start: BrokerStart) -> str | None:
    """Return how to restore the topic id from the metadata; None unless the name has exactly one."""
    ids = start.cluster.ids_of(partition.topic or "")
    if len(ids) != 1:
        return None
    path = os.path.join(partition.path, kinds.PARTITION_METADATA.name)
    return Advice.WRITE_TOPIC_ID(topic_id=ids[0], file=path)
