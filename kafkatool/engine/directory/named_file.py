"""Identify a file that was named by hand: by its name, else by its bytes.

A name that a broker gives is trusted, so that a damaged file is still reported as damaged. Under any other
name the content must prove its kind: a whole batch or a producer snapshot with its checksum, or one of the
small text files. Index content proves nothing, so an index needs at least its extension. Anything else is a
usage error, never an empty result: a file that was not read must not look like one without faults.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from itertools import pairwise, takewhile
from typing import Any

from kafkatool.engine.batches.resync import Resync
from kafkatool.engine.files.source import Guest, Source, open_source
from kafkatool.errors import FormatError, UsageError, unknown_word
from kafkatool.format import kinds
from kafkatool.format.batch import MAGIC_POSITION
from kafkatool.format.kinds import FileKind, NamedFile, kind_of, parse_kept_name
from kafkatool.format.names import FileState
from kafkatool.format.state.properties import read_properties

READ_AS = {
    kind.name: kind
    for kind in (*kinds.BY_EXTENSION.values(), *kinds.BY_NAME.values())
    if kind not in (kinds.LOCK, kinds.BOOTSTRAP, kinds.CLEAN_SHUTDOWN)
}
"""The values of --read-as."""
LOGS = (kinds.LOG, kinds.RAFT_SNAPSHOT, kinds.BOOTSTRAP)
SEGMENT_FILES = (kinds.LOG, kinds.OFFSET_INDEX, kinds.TIME_INDEX, kinds.TXN_INDEX)
READABLE: Collection[FileKind] = (*READ_AS.values(), kinds.BOOTSTRAP, kinds.CLEAN_SHUTDOWN)

_LARGEST_BATCH = 64 << 20
_HEAD = 24 * 34 << 10  # whole entries of every index, and more than any of the texts
_TEXTS = (kinds.LEADER_EPOCHS, kinds.PARTITION_METADATA, kinds.QUORUM_STATE)
_OFFSETS = (kinds.RECOVERY_POINTS, kinds.HIGH_WATERMARKS, kinds.LOG_STARTS, kinds.CLEANER_OFFSETS)
_UNPROVEN = (kinds.OFFSET_INDEX, kinds.TIME_INDEX, kinds.TXN_INDEX)
_PACKED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
}


def parse_read_as(text: str | None) -> FileKind | None:
    """Return the kind that --read-as names. Raises UsageError."""
    if text is not None and text not in READ_AS:
        raise unknown_word("--read-as", text, list(READ_AS))
    return None if text is None else READ_AS[text]


def identify(
    path: str,
    read_as: FileKind | None = None,
    readable: Collection[FileKind] = READABLE,
    *,
    offers_read_as: bool = False,
) -> NamedFile | None:
    """Return what to read a file as; None if its name says it.

    Raises UsageError if that is unknown or not one of the `readable` kinds, and KafkatoolError or OSError if
    the file cannot be read.
    """
    named = kind_of(os.path.basename(path))
    if read_as is not None:
        found: NamedFile | None = _said(path, named, read_as)
    elif named.kind in (kinds.UNKNOWN, kinds.BACKUP):
        found = _proven(path, named, offers_read_as=offers_read_as)
    else:
        found = None
    kind = named.kind if found is None else found.kind
    if kind not in readable:
        raise UsageError(f"{path}: is not {_one_of(readable)} ({kind.title})")
    return found


def _said(path: str, named: NamedFile, kind: FileKind) -> NamedFile | None:
    """Return the kind that the caller chose; a base offset in the name still counts."""
    if named.kind is kind:
        return None
    offset = named.offset
    if offset is None and kind is kinds.LOG:
        with open_source(path, Guest()) as source:
            offset = _first_offset(source)
    return NamedFile(kind, FileState.LIVE, offset or 0)


def _proven(path: str, named: NamedFile, *, offers_read_as: bool) -> NamedFile:
    name = os.path.basename(path)
    if (ours := parse_kept_name(name)) is not None:
        kept = kind_of(ours.original)
        if kept.kind not in (kinds.UNKNOWN, kinds.BACKUP):
            return kept._replace(state=FileState.LIVE)
    with open_source(path, Guest()) as source:
        offset = _first_offset(source)
        if offset is not None:
            return NamedFile(kinds.LOG, FileState.LIVE, offset)
        data = source.read(0, _HEAD)
    kind = _kind_of_bytes(data, kinds.BY_EXTENSION.get(name.rpartition(".")[2]))
    if kind is None:
        raise _unknown(path, data, offers_read_as=offers_read_as)
    return NamedFile(kind, FileState.LIVE, 0)


def _first_offset(source: Source) -> int | None:
    """Return the offset of a log's first batch; None unless a whole batch is at the first byte.

    A wrapper of old messages has only its last offset: such a log is taken to begin at 0.
    """
    search = Resync(source, _LARGEST_BATCH)
    search.legacy = True
    size = source.size_hint
    offset = None if size is None else search.offset_at(0, size, -1)
    is_old = offset is not None and source.read(MAGIC_POSITION, 1) != b"\2"
    return 0 if is_old and offset is not None and offset < 1 << 31 else offset


def _kind_of_bytes(data: bytes, by_extension: FileKind | None) -> FileKind | None:
    """Return the kind that these bytes prove: the start of an index, or all of any other file."""
    if _content(kinds.PRODUCER_SNAPSHOT, data) is not None:
        return kinds.PRODUCER_SNAPSHOT
    if by_extension in _UNPROVEN and _rises(_content(by_extension, data)):
        return by_extension
    for kind in _TEXTS:
        if _content(kind, data):
            return kind
    return kinds.META_PROPERTIES if _is_owner(data) else None


def _content(kind: FileKind, data: bytes) -> Any:
    """Decode bytes as a file of this kind; None if they are not one."""
    assert kind.read is not None
    try:
        return kind.read(data)
    except FormatError:
        return None


def _rises(entries: list[tuple[int, ...]] | None) -> bool:
    """Whether these are valid index entries: in ascending order, then only preallocated zeros."""
    used = list(takewhile(any, entries or ()))
    rest = (entries or [])[len(used) :]
    is_ordered = all(one[0] <= next_one[0] for one, next_one in pairwise(used))
    return bool(entries) and is_ordered and not any(map(any, rest))


def _is_owner(data: bytes) -> bool:
    """Whether this is meta.properties: almost any text parses as a properties file."""
    try:
        return {"version", "cluster.id"} <= read_properties(data).keys()
    except FormatError:
        return False


def _unknown(path: str, data: bytes, *, offers_read_as: bool) -> UsageError:
    packing = next((name for magic, name in _PACKED.items() if data.startswith(magic)), None)
    if not data:
        return UsageError(f"{path}: is empty, and its name is none that a broker gives: nothing can be read")
    if _content(kinds.HIGH_WATERMARKS, data):
        words = "|".join(kind.name for kind in _OFFSETS)
        hint = f": --read-as {words}" if offers_read_as else ""
        return UsageError(f"{path}: is a checkpoint of offsets, but neither name nor bytes say which{hint}")
    if packing is not None:
        return UsageError(f"{path}: is packed with {packing}: unpack it first; nothing was read")
    hint = "; --read-as log reads it as a log all the same" if offers_read_as else ""
    return UsageError(
        f"{path}: neither its name nor its bytes are those of a file of Kafka's: nothing was read{hint}"
    )


def _one_of(readable: Collection[FileKind]) -> str:
    if set(readable) <= set(LOGS):
        return "a log"
    return "a file of a segment" if set(readable) <= set(SEGMENT_FILES) else "a file with anything to read"
