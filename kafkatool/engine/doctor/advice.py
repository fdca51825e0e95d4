"""What to do about each thing that keeps a broker from starting, as a command where there is one."""

from __future__ import annotations

import os
import shlex

from kafkatool.engine.broker_start import BrokerStart
from kafkatool.engine.doctor.brokers import Broker
from kafkatool.engine.logdir import Partition
from kafkatool.engine.start_checks import StartProblem
from kafkatool.engine.verify_report import fetch_again
from kafkatool.format import kinds
from kafkatool.format.kinds import FileKind, kind_of

# What becomes of a start without the file; a shell takes what is behind # for a comment.
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


def for_the_top(problem: StartProblem, broker: Broker) -> str:
    """What to do about something at the top of a log directory."""
    path = shlex.quote(problem.path)
    if os.path.isdir(problem.path):
        if problem.message.startswith("also in "):
            return f"kafkatool verify {path}  # and the other; move the worse one out of the log directory"
        return f"move it out of the log directory: mv {path} ELSEWHERE"
    kind = kind_of(os.path.basename(problem.path)).kind
    if kind in _WITHOUT:
        return set_aside(problem.path, kind)
    if not os.path.exists(problem.path):
        return format_directory(broker)
    return f"kafkatool ls {shlex.quote(os.path.dirname(problem.path))}  # whose directory is this?"


def format_directory(broker: Broker) -> str:
    """How a directory without an owner is given one; those that have one stay as they are."""
    cluster = broker.meta.cluster_id if broker.meta is not None else None
    config = broker.configuration.path if broker.configuration is not None else "server.properties"
    return (
        "mount its volume; or, if it is new, kafka-storage.sh format --ignore-formatted "
        f"-t {cluster or 'CLUSTER_ID'} -c {shlex.quote(config)}"
    )


def set_aside(path: str, kind: FileKind) -> str:
    return f"mv {shlex.quote(path)} {shlex.quote(path + '.bad')}  # {_WITHOUT[kind]}"


def for_a_file(path: str, partition: Partition, start: BrokerStart, node_id: int | None) -> str:
    """What to do about a file of a partition that a broker does not get over."""
    where = shlex.quote(partition.path)
    replicas = start.replicas_at(partition.path)
    if replicas is not None and node_id is not None and (better := fetch_again(where, replicas, node_id)):
        return better
    kind = kind_of(os.path.basename(path)).kind
    if kind is kinds.PARTITION_METADATA:
        return write_topic_id(partition, start) or f"kafkatool dump-log {shlex.quote(path)}"
    if kind in _WITHOUT and os.path.isfile(path):
        return set_aside(path, kind)
    return f"kafkatool verify -v {where}"


def write_topic_id(partition: Partition, start: BrokerStart) -> str | None:
    """How a partition gets the id that the metadata has for its topic; None where that is not just one."""
    ids = start.cluster.ids_of(partition.topic or "")
    if len(ids) != 1:
        return None
    path = shlex.quote(os.path.join(partition.path, kinds.PARTITION_METADATA.name))
    return f"printf 'version: 0\\ntopic_id: %s' {ids[0]} > {path}"
