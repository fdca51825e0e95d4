"""Find the full name of a topic whose directory name was truncated, by its id in the cluster metadata.

A broker renames a directory to be deleted, and truncates the topic to keep the name within 255 characters.
The topic id in its partition.metadata stays, and the metadata log on the same machine has the topic's name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from kafkatool.engine.batches.scan import Batch, scan
from kafkatool.engine.directory.log_dir import LogDir, read_partition
from kafkatool.engine.files.object_storage import absolute_path
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.errors import FormatError, KafkatoolError
from kafkatool.format import kinds
from kafkatool.format.batch import BatchHeader
from kafkatool.format.names import METADATA_PARTITION
from kafkatool.format.record import read_records
from kafkatool.format.schema import Decoder, decode_row

# Frame version 1, then the type of a TopicRecord.
_TOPIC_RECORD = b"\x01\x02"
_METADATA_KINDS = (kinds.LOG, kinds.RAFT_SNAPSHOT)


def restore_topic_names(log_dirs: Iterable[LogDir], guest: Guest) -> None:
    """Set the full topic name in every partition with a truncated one, if metadata here has it."""
    log_dirs = list(log_dirs)
    wanted = {
        partition.topic_id
        for log_dir in log_dirs
        for partition in log_dir.partitions
        if partition.topic_may_be_cut and partition.topic_id
    }
    if not wanted:
        return
    metadata = [partition.path for log_dir in log_dirs for partition in log_dir.metadata]
    names = topic_names(metadata, wanted, guest)
    for log_dir in log_dirs:
        for partition in log_dir.partitions:
            if partition.topic_may_be_cut and partition.topic_id in names:
                whole = replace(partition, topic=names[partition.topic_id], topic_may_be_cut=False)
                log_dir.listed[partition.directory] = whole


def real_topic_name(directory: str, guest: Guest) -> str | None:
    """Return a partition directory's topic, by its id and the metadata beside it; None if unknown."""
    try:
        topic_id = read_partition(directory, [], guest).topic_id
    except KafkatoolError:
        return None
    if topic_id is None:
        return None
    beside = os.path.join(os.path.dirname(absolute_path(directory)), METADATA_PARTITION)
    return topic_names([beside], {topic_id}, guest).get(topic_id)


def topic_names(directories: Iterable[str], wanted: set[str], guest: Guest) -> dict[str, str]:
    """Return the names of these topic ids that the metadata logs and snapshots have.

    A removed topic is still found as long as the log has its creation.
    """
    names: dict[str, str] = {}
    for directory in directories:
        for path in _metadata_files(directory, guest):
            found = dict(_topics_in(path, guest))
            names.update({topic_id: found[topic_id] for topic_id in wanted & found.keys()})
            if wanted <= names.keys():
                return names
    return names


def _metadata_files(directory: str, guest: Guest) -> list[str]:
    """Return snapshots and logs, newest first."""
    try:
        partition = read_partition(directory, [], guest)
    except KafkatoolError:
        return []
    found = [entry for entry in partition.files if entry.kind in _METADATA_KINDS]
    return [entry.path for entry in sorted(found, key=lambda entry: entry.offset or 0, reverse=True)]


def _topics_in(path: str, guest: Guest) -> Iterator[tuple[str, str]]:
    with suppress(FileNotFoundError, KafkatoolError), open_source(path, guest) as source:
        for item in scan(source):
            if isinstance(item, Batch) and item.is_valid and item.data is not None:
                yield from _topics_of(item)


def _topics_of(batch: Batch) -> Iterator[tuple[str, str]]:
    header = batch.header
    if not isinstance(header, BatchHeader) or header.is_control or batch.data is None:
        return
    with suppress(FormatError):
        for record in read_records(header, batch.data):
            if record.value is None or not record.value.startswith(_TOPIC_RECORD):
                continue
            value = decode_row(Decoder.CLUSTER_METADATA, None, record.value).get("value")
            if isinstance(value, dict):
                yield str(value.get("topicId")), str(value.get("name"))
