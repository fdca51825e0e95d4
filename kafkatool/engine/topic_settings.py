"""What the metadata log beside the partitions says of a topic's settings.

Only what was set for the topic, or as the cluster's default while it ran, is in there; what stands in
server.properties is not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from kafkatool.engine.logdir import FileEntry, read_partition
from kafkatool.engine.scan import Batch, scan
from kafkatool.engine.source import Guest, open_source
from kafkatool.errors import FormatError, KafkatoolError
from kafkatool.format import kinds
from kafkatool.format.batch import BatchHeader
from kafkatool.format.names import METADATA_PARTITION, FileState
from kafkatool.format.record import read_records
from kafkatool.format.schema import Decoder, decode_row

_CONFIG_RECORD = b"\x01\x04"  # frame version 1, then the type
_TOPIC = 2
_BROKER = 4
# Settings of a broker that stand for a topic's where the topic has none.
_SYNONYMS = {"log.index.interval.bytes": "index.interval.bytes"}

Settings = dict[str, dict[str, str]]


def topic_settings(log_dir: str, guest: Guest) -> Settings:
    """Topic to settings, by Kafka's names; `""` holds the cluster's defaults. Empty without metadata."""
    found: Settings = {}
    for resource, name, value in _changes(os.path.join(log_dir, METADATA_PARTITION), guest):
        if value is None:
            found.get(resource, {}).pop(name, None)
        else:
            found.setdefault(resource, {})[name] = value
    return found


def setting(settings: Settings, topic: str | None, name: str) -> str | None:
    """One setting of a topic, or the cluster's default; None where neither is set."""
    own = settings.get(topic or "", {}).get(name)
    return settings.get("", {}).get(name) if own is None else own


def _changes(directory: str, guest: Guest) -> Iterator[tuple[str, str, str | None]]:
    """Every change of a setting since the newest snapshot, that one included, in order."""
    try:
        files = [entry for entry in read_partition(directory, [], guest).files if not entry.is_leftover]
    except KafkatoolError:
        return
    snapshots = sorted(_of_kind(files, kinds.RAFT_SNAPSHOT), key=lambda entry: entry.offset or 0)
    logs = sorted(_of_kind(files, kinds.LOG), key=lambda entry: entry.offset or 0)
    start = 0
    if snapshots:
        start = snapshots[-1].offset or 0
        yield from _changes_in(snapshots[-1].path, 0, guest)
    for entry in logs:
        yield from _changes_in(entry.path, start, guest)


def _of_kind(files: list[FileEntry], kind: kinds.FileKind) -> list[FileEntry]:
    return [entry for entry in files if entry.kind is kind and entry.state is FileState.LIVE]


def _changes_in(path: str, start: int, guest: Guest) -> Iterator[tuple[str, str, str | None]]:
    with suppress(FileNotFoundError, KafkatoolError), open_source(path, guest) as source:
        for item in scan(source):
            if isinstance(item, Batch) and item.is_valid and item.header.last_offset >= start:
                yield from _changes_of(item)


def _changes_of(batch: Batch) -> Iterator[tuple[str, str, str | None]]:
    header = batch.header
    if not isinstance(header, BatchHeader) or header.is_control or batch.data is None:
        return
    with suppress(FormatError):
        for record in read_records(header, batch.data):
            if record.value is None or not record.value.startswith(_CONFIG_RECORD):
                continue
            row = decode_row(Decoder.CLUSTER_METADATA, None, record.value).get("value")
            if not isinstance(row, dict):
                continue
            name, value = str(row.get("name")), row.get("value")
            text = None if value is None else str(value)
            if row.get("resourceType") == _TOPIC:
                yield str(row.get("resourceName")), name, text
            elif row.get("resourceType") == _BROKER and row.get("resourceName") == "" and name in _SYNONYMS:
                yield "", _SYNONYMS[name], text
