"""What consumer groups have committed: seeded from `__consumer_offsets`, then kept in memory or in a file.

The file has one line of JSON per group, topic and partition; it is always replaced as a whole.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from kafkatool.engine.directory.log_dir import LogDir, Partition
from kafkatool.engine.directory.selection import NamedPartition
from kafkatool.engine.files.disk import Disk, Files
from kafkatool.engine.files.source import Guest, read_whole_file
from kafkatool.engine.files.whole_files import Replacement, remove_leftovers
from kafkatool.engine.records.stream import RecordPiece, RecordStream, records_of
from kafkatool.engine.records.subject import ReadLimits, Subject
from kafkatool.engine.records.visibility import LOG_END, VisibilityRule
from kafkatool.engine.serve.budget import Account, memory_of
from kafkatool.errors import KafkatoolError, UsageError
from kafkatool.format.names import TopicPartition
from kafkatool.format.schema import Decoder, decode_row

MOST_ENTRIES = 1_000_000
LARGEST_FILE = 1 << 30
_BY_ENTRY = 384
_OFFSET_COMMIT_TYPES = (0, 1)


class Commit(NamedTuple):
    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


Offsets = dict[str, dict[TopicPartition, Commit]]
"""By group, then by topic and partition."""


class Committed:
    """The offsets of all groups. Threads share them."""

    def __init__(
        self,
        seed: Callable[[], Offsets] | None = None,
        path: str | None = None,
        kept: Account | None = None,
        files: Files | None = None,
    ) -> None:
        """Call `seed` once, when offsets are first needed; the file takes precedence over it.

        `kept` accounts for the bytes that clients commit, beyond those from the disk and the file.
        """
        self._seed = seed
        self._kept = kept or Account()
        self._kept_bytes = 0
        self._path = path
        self._files = files or Disk()
        self._offsets: Offsets = {}
        self._count = 0
        self._is_changed = False
        self._lock = threading.RLock()
        if path is not None:
            with suppress(OSError):  # if the directory is not writable, the first commit reports it
                remove_leftovers(self._files, os.path.dirname(path), re.escape(os.path.basename(path)))
            self._offsets = _read_file(path)
            self._count = sum(map(len, self._offsets.values()))

    def get(self, group: str, topic: str, partition: int) -> Commit | None:
        with self._lock:
            return self._all().get(group, {}).get((topic, partition))

    def places(self, group: str) -> list[TopicPartition]:
        """Return the topics and partitions that the group has committed offsets for."""
        with self._lock:
            return sorted(self._all().get(group, {}))

    def knows(self, group: str) -> bool:
        with self._lock:
            return bool(self._all().get(group))

    def commit(self, group: str, entries: dict[TopicPartition, Commit]) -> bool:
        """Take all entries; or none, and return false, if that would be too many entries or bytes."""
        with self._lock:
            offsets = self._all()
            known = offsets.get(group, {})
            count = self._count + len(entries.keys() - known.keys())
            more = sum(_size(new) - _size(known.get(place)) for place, new in entries.items())
            if group not in offsets:
                more += memory_of(group)
            size = max(0, self._kept_bytes + more)
            if count > MOST_ENTRIES or not self._kept.resize(size):
                return False
            self._count, self._kept_bytes = count, size
            offsets.setdefault(group, {}).update(entries)
            self._is_changed = True
            return True

    def groups(self) -> list[str]:
        with self._lock:
            return sorted(group for group, entries in self._all().items() if entries)

    def save(self) -> None:
        """Rewrite the file, if there is one and something has changed."""
        with self._lock:
            if self._path is None or not self._is_changed:
                return
            content = b"".join(line.encode() for line in _lines(self._offsets))
            self._is_changed = False
        try:
            with Replacement(self._files, self._path) as new:
                new.write(content)
                new.commit()
        except OSError:
            self._is_changed = True  # the next call tries again
            raise

    def _all(self) -> Offsets:
        seed, self._seed = self._seed, None
        if seed is not None:
            for group, entries in seed().items():
                self._offsets[group] = {**entries, **self._offsets.get(group, {})}
            self._count = sum(map(len, self._offsets.values()))
        return self._offsets


def _size(commit: Commit | None) -> int:
    """Return the memory it takes, with its key and its entry."""
    return 0 if commit is None else _BY_ENTRY + memory_of(commit.metadata)


def _lines(offsets: Offsets) -> Iterable[str]:
    for group, entries in sorted(offsets.items()):
        for (topic, partition), commit in sorted(entries.items()):
            row = {"group": group, "topic": topic, "partition": partition, **commit._asdict()}
            yield json.dumps(row, ensure_ascii=False) + "\n"


def _read_file(path: str) -> Offsets:
    try:
        text = read_whole_file(path, Guest(), limit=LARGEST_FILE + 1).decode()
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not a file of offsets: {error}") from None
    if len(text) > LARGEST_FILE:
        raise UsageError(f"{path}: larger than the {LARGEST_FILE} bytes that are read of such a file")
    offsets: Offsets = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else (), 1):
        try:
            group, place, commit = _read_line(line)
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path}: line {number} is not an offset of a group: {error!r}") from None
        offsets.setdefault(group, {})[place] = commit
    return offsets


def _read_line(line: str) -> tuple[str, TopicPartition, Commit]:
    """Parse one line; raise ValueError, KeyError or TypeError for what no client could be sent."""
    row = json.loads(line)
    group, topic, metadata = row["group"], row["topic"], row["metadata"]
    if not isinstance(group, str) or not isinstance(topic, str) or not isinstance(metadata, str | None):
        raise ValueError("group, topic and metadata are texts")
    numbers = row["offset"], row["leader_epoch"], row["partition"]
    for number, bits in zip(numbers, (64, 32, 32), strict=True):
        if type(number) is not int or not -(1 << bits - 1) <= number < 1 << bits - 1:
            raise ValueError(f"{number!r} is not a number of {bits} bits")
    offset, leader_epoch, partition = numbers
    return group, (topic, partition), Commit(offset, leader_epoch, metadata)


def read_consumer_offsets(partitions: Iterable[tuple[Partition, LogDir]], guest: Guest) -> Offsets:
    """Return the last committed offsets in these partitions, as a broker's coordinator would load them."""
    offsets: Offsets = {}
    for partition, log_dir in partitions:
        named = NamedPartition(partition, None, None)
        subject = Subject(named, log_dir.path, ReadLimits(), LOG_END)
        try:
            for piece in RecordStream(subject, guest).pieces():
                if not isinstance(piece, RecordPiece):
                    continue
                rows = np.flatnonzero(piece.judged.rule == VisibilityRule.SHOWN)
                for _row, _batch, record in records_of(piece, rows):
                    _apply(offsets, record.key, record.value)
        except (FileNotFoundError, KafkatoolError):
            continue
    return offsets


def _apply(offsets: Offsets, key: bytes | None, value: bytes | None) -> None:
    if key is None or int.from_bytes(key[:2], "big") not in _OFFSET_COMMIT_TYPES:
        return
    row = decode_row(Decoder.OFFSETS, key, value)
    name, found = row.get("key"), row.get("value")
    if not isinstance(name, dict):
        return
    entries = offsets.setdefault(str(name["group"]), {})
    place = str(name["topic"]), int(name["partition"])
    if isinstance(found, dict):
        epoch = int(found.get("leaderEpoch", -1))
        entries[place] = Commit(int(found["offset"]), epoch, str(found.get("metadata") or ""))
    elif value is None:
        entries.pop(place, None)
