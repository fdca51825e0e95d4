"""Find what a broker should have and lacks: partitions, its metadata log, clean shutdown markers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

from kafkatool.engine.advice.table import Advice
from kafkatool.engine.batches.damage import FindingClass, Severity
from kafkatool.engine.broker.owner_checks import holds_metadata, is_reserved_id
from kafkatool.engine.cluster.view import Replicas
from kafkatool.engine.directory.log_dir import LogDir, PartitionState
from kafkatool.engine.doctor.brokers import Broker
from kafkatool.engine.doctor.symptoms import Symptom
from kafkatool.engine.files.lock import CLEAN_MARKER
from kafkatool.engine.recover.broker_start import BrokerStart
from kafkatool.engine.verify.finding import Finding
from kafkatool.engine.verify.side_files import state_damage
from kafkatool.format.names import METADATA_PARTITION, TopicPartition

_HERE = (PartitionState.ACTIVE, PartitionState.FUTURE)


def absence_symptoms(broker: Broker, start: BrokerStart) -> Iterator[Symptom]:
    yield from _missing_metadata(broker)
    yield from _missing_marks(broker)
    yield from _missing_partitions(broker, start)


def _missing_metadata(broker: Broker) -> Iterator[Symptom]:
    """Yield a symptom if a controller lacks its metadata log: if alone, it would begin an empty cluster."""
    if "controller" not in (broker.setting("process.roles") or "") or not broker.log_dirs:
        return
    if any(map(holds_metadata, broker.log_dirs)):
        return
    home = broker.setting("metadata.log.dir") or broker.log_dirs[0].path
    text = "the metadata log of this controller is missing: it fetches it from the other controllers"
    severity = Severity.DEGRADED
    if broker.is_alone:
        text = "the metadata log of the only controller is missing: it begins an empty cluster"
        severity = Severity.LOSS
    damage = state_damage(FindingClass.MISSING_FILE, text, "", "", severity=severity)
    finding = Finding(os.path.join(home, METADATA_PARTITION), None, None, damage, None)
    yield Symptom(finding, directory=METADATA_PARTITION)


def _missing_marks(broker: Broker) -> Iterator[Symptom]:
    """Yield missing markers: a broker counts as cleanly shut down only if all its directories have one."""
    bare = [one for one in broker.log_dirs if not one.was_shut_down_cleanly]
    if len(bare) == len(broker.log_dirs):
        return
    for log_dir in bare:
        text = "missing here, and not in other directories: to the cluster the whole broker ended uncleanly"
        damage = state_damage(FindingClass.MISSING_FILE, text, "", "", severity=Severity.NOTE)
        yield Symptom(Finding(os.path.join(log_dir.path, CLEAN_MARKER), None, None, damage, None))


# --- partitions -----------------------------------------------------------------------------------------


def _missing_partitions(broker: Broker, start: BrokerStart) -> Iterator[Symptom]:
    """Yield partitions that the metadata places in one of these directories, and that are not there."""
    view, node = start.cluster, broker.node_id
    if node is None or not (view.is_known and view.is_complete):
        return
    here = {one.key for log_dir in broker.log_dirs for one in log_dir.partitions if one.state in _HERE}
    for (topic_id, number), replicas in sorted(view.partitions.items()):
        topic = view.topic_ids.get(topic_id)
        home = _home(broker, replicas, node)
        if topic is not None and home is not None and (topic, number) not in here:
            yield _missing(home, (topic, number), replicas, node)


def no_directory_is_lost(broker: Broker, start: BrokerStart) -> bool:
    """Return whether the metadata proves that no directory is missing that holds partitions of the broker."""
    view, node = start.cluster, broker.node_id
    if node is None or not (view.is_known and view.is_complete):
        return False
    here = {one.meta.directory_id for one in broker.log_dirs if one.meta is not None}
    wanted = {
        replicas.directory_of(node) for replicas in view.partitions.values() if node in replicas.replicas
    }
    return wanted <= here


def _home(broker: Broker, replicas: Replicas, node: int) -> LogDir | None:
    """Return the directory that should hold the partition; None if it is not among those that were read."""
    if node not in replicas.replicas:
        return None
    wanted = replicas.directory_of(node)
    for log_dir in broker.log_dirs:
        if wanted is not None and log_dir.meta is not None and log_dir.meta.directory_id == wanted:
            return log_dir
    is_unsaid = wanted is None or is_reserved_id(wanted)
    is_all_here = broker.configuration is not None and not broker.missing and bool(broker.log_dirs)
    return broker.log_dirs[0] if is_unsaid and is_all_here else None


def _missing(home: LogDir, key: TopicPartition, replicas: Replicas, node: int) -> Symptom:
    name = f"{key[0]}-{key[1]}"
    others = replicas.others_in_sync(node) or replicas.others_eligible(node)
    first, end = home.log_starts.get(key, 0), home.high_watermarks.get(key, 0)
    text = f"the metadata of the cluster has it here, and it is missing: {_what_then(others, home)}"
    severity = Severity.DEGRADED if others or end <= first else Severity.LOSS
    damage = state_damage(FindingClass.MISSING_FILE, text, "", "", severity=severity)
    if end > first:
        damage = replace(damage, first_offset=first, last_offset=end - 1)
    marker = os.path.join(home.path, CLEAN_MARKER)
    advice = None
    if others and home.was_shut_down_cleanly:
        advice = Advice.DO_WITHOUT(file=marker)
    finding = Finding(os.path.join(home.path, name), *key, damage, advice, replicas)
    # With the marker it may be elected leader, and replicas that have the records truncate them.
    is_maybe = bool(others) and home.was_shut_down_cleanly
    return Symptom(finding, log_dir=home.path, directory=name, is_maybe=is_maybe)


def _what_then(others: list[int], home: LogDir) -> str:
    if not others:
        return "no other node was in sync, and an empty one takes its place"
    nodes = ", ".join(map(str, others))
    if home.was_shut_down_cleanly:
        return (
            f"node {nodes} has it, but with the mark of a clean shutdown this broker may be elected first, "
            "with an empty log"
        )
    return f"it is fetched again from node {nodes}"
