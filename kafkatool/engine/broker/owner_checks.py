"""Check who owns log directories: what `meta.properties` and the partitions of one broker must agree on.

A KRaft node refuses to start if one of its directories has no owner, another owner than the rest, or another
directory's id. If it cannot read the file, it loses that directory, and does not start if the metadata log is
in it. Without KRaft a missing or empty file is fine.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafkatool.engine.broker.checkpoint_effects import Effect
from kafkatool.engine.directory.log_dir import LogDir
from kafkatool.engine.files.source import Guest, read_whole_file
from kafkatool.errors import FormatError, KafkatoolError
from kafkatool.format import kinds
from kafkatool.format.names import METADATA_PARTITION, DirectoryState, parse_partition_directory
from kafkatool.format.state.properties import MetaProperties, read_meta_properties
from kafkatool.format.uuids import parse_uuid

_RESERVED_IDS = 100
_LOADED = (DirectoryState.LIVE, DirectoryState.FUTURE)


class OwnerProblem(NamedTuple):
    """A problem with a broker's directory; `path` is the file or directory to look at."""

    log_dir: str
    path: str
    effect: Effect
    message: str
    other: str | None = None
    """Another copy of the same partition."""


def holds_metadata(log_dir: LogDir) -> bool:
    return bool(log_dir.metadata)


def is_reserved_id(directory_id: str) -> bool:
    """Return whether a directory id is reserved for "none yet", "lost" or the like."""
    raw = parse_uuid(directory_id)
    return raw is not None and int.from_bytes(raw, "big") < _RESERVED_IDS


def owner_problems(
    log_dirs: Sequence[LogDir], guest: Guest, node_id: int | None = None
) -> Iterator[OwnerProblem]:
    """Yield owner problems of all log directories of one broker; `node_id` is the configured one."""
    is_kraft = any(holds_metadata(one) or (one.meta is not None and one.meta.version > 0) for one in log_dirs)
    known: list[tuple[LogDir, MetaProperties]] = []
    for log_dir in log_dirs:
        problem = owner_file_problem(log_dir, guest, is_kraft=is_kraft)
        if problem is not None:
            yield problem
        elif log_dir.meta is not None:
            known.append((log_dir, log_dir.meta))
    for log_dir, meta in known:
        yield from _id_problems(log_dir, meta)
    yield from _disagreements(known, node_id)
    yield from same_directory_ids(log_dirs)
    yield from same_partitions(log_dirs)


def owner_file_problem(log_dir: LogDir, guest: Guest, *, is_kraft: bool) -> OwnerProblem | None:
    """Return why a broker cannot use a directory, judging by its meta.properties alone."""
    path = os.path.join(log_dir.path, kinds.META_PROPERTIES.name)
    try:
        meta = read_meta_properties(read_whole_file(path, guest))
    except FileNotFoundError:
        text = "is missing: a KRaft node does not start without it"
        if holds_metadata(log_dir):
            text += ", and formatted anew a controller may count as another voter"
        # Without any file of a broker's own these are copies of partitions, not a log directory.
        is_wanted = is_kraft and bool(log_dir.files)
        return OwnerProblem(log_dir.path, path, Effect.REFUSE, text) if is_wanted else None
    except FormatError as error:
        return OwnerProblem(log_dir.path, path, Effect.OFFLINE, f"{error}: it cannot be read")
    except KafkatoolError as error:
        return OwnerProblem(log_dir.path, path, Effect.OFFLINE, str(error).removeprefix(f"{path}: "))
    if is_kraft and (meta.version == 0 or meta.node_id is None):
        return OwnerProblem(
            log_dir.path, path, Effect.REFUSE, "names no node.id: a KRaft node does not start"
        )
    return None


def _id_problems(log_dir: LogDir, meta: MetaProperties) -> Iterator[OwnerProblem]:
    path = os.path.join(log_dir.path, kinds.META_PROPERTIES.name)
    if meta.directory_id is not None:
        if is_reserved_id(meta.directory_id):
            text = f"directory.id {meta.directory_id} is reserved: a node does not start with it"
            yield OwnerProblem(log_dir.path, path, Effect.REFUSE, text)
    elif meta.version > 0 and any(map(parse_partition_directory, log_dir.names)):
        text = "names no directory.id: a node gives it a new one, and leads none of it until it starts again"
        yield OwnerProblem(log_dir.path, path, Effect.NOTE, text)


def _disagreements(
    known: Sequence[tuple[LogDir, MetaProperties]], node_id: int | None
) -> Iterator[OwnerProblem]:
    cluster_id: str | None = None
    for log_dir, meta in known:
        path = os.path.join(log_dir.path, kinds.META_PROPERTIES.name)
        cluster_id = cluster_id or meta.cluster_id
        node_id = meta.node_id if node_id is None else node_id
        if meta.cluster_id is not None and meta.cluster_id != cluster_id:
            text = f"belongs to cluster {meta.cluster_id}, not {cluster_id}: the broker does not start"
            yield OwnerProblem(log_dir.path, path, Effect.REFUSE, text)
        if meta.node_id is not None and meta.node_id != node_id:
            text = f"belongs to node {meta.node_id}, not {node_id}: the broker does not start"
            yield OwnerProblem(log_dir.path, path, Effect.REFUSE, text)


def same_directory_ids(log_dirs: Sequence[LogDir]) -> Iterator[OwnerProblem]:
    """Yield directories with the id of another one: copies left under another name."""
    ids: dict[str, str] = {}
    for log_dir in log_dirs:
        if log_dir.meta is None or log_dir.meta.directory_id is None:
            continue
        first = ids.setdefault(log_dir.meta.directory_id, log_dir.path)
        if first != log_dir.path:
            path = os.path.join(log_dir.path, kinds.META_PROPERTIES.name)
            text = f"has the directory.id of {first}: a broker does not start with both"
            yield OwnerProblem(log_dir.path, path, Effect.REFUSE, text)


def same_partitions(log_dirs: Sequence[LogDir]) -> Iterator[OwnerProblem]:
    """Yield partitions in several directories of a broker; a future replica (-future) is no second copy."""
    copies: dict[tuple[str, int, DirectoryState], list[tuple[LogDir, str]]] = defaultdict(list)
    for log_dir in log_dirs:
        for name in log_dir.names:
            known = parse_partition_directory(name)
            if known and known.state in _LOADED and name != METADATA_PARTITION:
                copies[known.topic, known.partition, known.state].append((log_dir, name))
    for same in filter(lambda same: len(same) > 1, copies.values()):
        listed = [(log_dir, one) for log_dir, name in same if (one := log_dir.partition(name)) is not None]
        for log_dir, copy in listed[1:]:
            text = f"also in {listed[0][1].path}: a broker does not start with both"
            yield OwnerProblem(log_dir.path, copy.path, Effect.REFUSE, text, listed[0][1].path)
