"""Results of earlier runs, so that unchanged closed segments need not be read every time.

The file is JSON and replaced as a whole, so an interrupted run keeps the work done so far. Only segments
without findings are remembered: problems are reported again by every run.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Hashable, Iterable
from dataclasses import fields
from io import BufferedWriter, RawIOBase, TextIOWrapper
from typing import Any, cast

from kafkatool.engine.directory.log_dir import FileEntry, Segment
from kafkatool.engine.files.disk import Disk, Files
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.engine.files.whole_files import Replacement, remove_leftovers
from kafkatool.engine.verify.log_facts import LogFacts
from kafkatool.engine.verify.producers import Aborted, LastBatch, Trail, Transaction
from kafkatool.engine.verify.rechecking import Recheck, Verified
from kafkatool.errors import KafkatoolError
from kafkatool.format import kinds
from kafkatool.format.checksum import crc32c
from kafkatool.format.names import parse_partition_directory

VERSION = 2
SAVE_EVERY = 30.0  # seconds
TAIL = 4096
_BUFFER = 1 << 20
_MARK = "kafkatool_verify_state"
_MOST_PRODUCERS = 10_000
_KEPT = (
    *("start", "stop", "first_offset", "last_offset", "last_position", "previous_offset"),
    *("batches", "records", "max_timestamp", "max_filled_timestamp", "epochs"),
    *("holes", "thinned", "has_legacy", "times_from", "times_to", "first_time_ms"),
)


class Scrub:
    """The state of a nightly check, in one file. Several runs may share it, even at the same time."""

    def __init__(self, path: str, recheck: Recheck, *, deep: bool, files: Files | None = None) -> None:
        """Read the file, if any. Raises KafkatoolError if it is not a state file, or cannot be written."""
        self.path = os.path.realpath(path)
        self.notes: list[str] = []
        self.failure: str | None = None
        """Why the last write of the file failed; None: it did not."""
        self._files = files or Disk()
        self._deep = deep
        self.rechecked = 0
        """Number of seemingly unchanged segments that were due to be read again."""
        self._recheck = recheck
        self._due: set[Hashable] = set()
        self._version_read = _version(self.path)
        self._segments = self._load()
        self._seen: set[str] = set()
        self._touched: set[str] = set()
        self._save_at = time.monotonic() + SAVE_EVERY
        self._prove_writable()

    def choose(self, segments: Iterable[Segment]) -> None:
        """Choose unchanged segments to read again, among all segments of a run."""
        logs = [segment.log for segment in segments if segment.log is not None]
        self._due = self._recheck.due(
            Verified(os.path.abspath(log.path), log.size, self.verified_at_ms(log.path))
            for log in logs
            if os.path.abspath(log.path) in self._segments
        )

    def verified_at_ms(self, path: str) -> int | None:
        """Return when a log was last read and found good; None if unknown."""
        kept = self._segments.get(os.path.abspath(path))
        found = kept.get("verified_at_ms") if isinstance(kept, dict) else None
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    def recall(self, segment: Segment) -> LogFacts | None:
        """Return the facts of a segment that is unchanged since it was found good, unless it is due again."""
        log = segment.log
        if log is None:
            return None
        key = os.path.abspath(log.path)
        self._seen.add(key)
        kept = self._segments.get(key)
        if not isinstance(kept, dict) or (self._deep and not kept.get("deep")):
            return None
        tail = tail_checksum(log)
        if tail is None or kept.get("tail") != tail or kept.get("identity") != _identity(segment):
            return None
        facts = kept.get("facts")
        if not isinstance(facts, dict) or kept.get("check") != _check(facts):
            return None  # edited by hand, or a bad disk
        if key in self._due:
            self.rechecked += 1
            return None
        return facts_of_row(facts)

    def remember(self, segment: Segment, facts: LogFacts) -> None:
        """Keep the facts of a closed segment without damage."""
        log = segment.log
        if log is None or len(facts.producers) > _MOST_PRODUCERS or len(facts.aborted) > _MOST_PRODUCERS:
            return
        tail, row = tail_checksum(log), facts_row(facts)
        if tail is None:
            return
        key = os.path.abspath(log.path)
        self._touched.add(key)
        self._segments[key] = {
            "identity": _identity(segment),
            "tail": tail,
            "deep": self._deep,
            "verified_at_ms": self._recheck.now_ms,
            "check": _check(row),
            "facts": row,
        }
        if time.monotonic() > self._save_at:
            self.save()

    def forget(self, segment: Segment) -> None:
        if segment.log is not None:
            key = os.path.abspath(segment.log.path)
            self._touched.add(key)
            self._segments.pop(key, None)

    def save(self, *, is_complete: bool = False) -> None:
        """Replace the file; after a complete run, drop segments that no longer exist. Never raises."""
        began = time.monotonic()
        try:
            self._take_over_what_others_found()
            if is_complete:
                self._segments = {
                    key: row
                    for key, row in self._segments.items()
                    if key in self._seen or os.path.exists(key)
                }
            self._write()
            self.failure = None
        except (OSError, KafkatoolError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self.failure = f"{self.path}: the state could not be saved: {reason}"
        # Save a large state less often, so that most of the time is spent on the check.
        took = time.monotonic() - began
        self._save_at = time.monotonic() + max(SAVE_EVERY, 20 * took)

    def _take_over_what_others_found(self) -> None:
        """If another run has replaced the file, use its rows for segments that this run has not touched."""
        if _version(self.path) == self._version_read:
            return
        for key, row in self._load().items():
            if key not in self._touched:
                self._segments[key] = row

    def _write(self) -> None:
        with self._replacement() as new:
            with TextIOWrapper(BufferedWriter(cast(RawIOBase, new), _BUFFER), "utf-8") as out:
                out.write(f'{{"{_MARK}": {VERSION}, "segments": {{')
                for number, (key, row) in enumerate(self._segments.items()):
                    out.write(f"{',' if number else ''}\n{json.dumps(key)}: {json.dumps(row)}")
                out.write("\n}}\n")
            new.commit()
        self._version_read = _version(self.path)

    def _replacement(self) -> Replacement:
        return Replacement(self._files, self.path, mode=0o600)

    def _prove_writable(self) -> None:
        """Raise KafkatoolError now, not after hours of work, if the file cannot be written."""
        path = self.path
        try:
            if os.path.lexists(path) and not os.path.isfile(path):
                raise KafkatoolError(f"{path}: not a regular file")
            remove_leftovers(self._files, os.path.dirname(path), re.escape(os.path.basename(path)))
            self._replacement().abandon()
        except OSError as error:
            raise KafkatoolError(f"{path}: the state cannot be saved there: {error.strerror}") from None

    def _load(self) -> dict[str, Any]:
        """Return the segments in the file: none, with a note, if a state file is damaged."""
        try:
            with open(self.path, "rb") as file:
                raw = file.read()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise KafkatoolError(f"{self.path}: {error.strerror}") from None
        if not raw.strip():
            return {}
        if not raw.startswith(f'{{"{_MARK}": '.encode()):
            raise KafkatoolError(f"{self.path}: not a state file of verify; name another")
        try:
            content = json.loads(raw)
            if content[_MARK] == VERSION:
                return dict(content["segments"])
            self.notes.append(f"{self.path}: the state of another release: everything is read anew")
        except (ValueError, KeyError, TypeError, RecursionError):
            self.notes.append(f"{self.path}: the state is damaged: everything is read anew")
        return {}


def _version(path: str) -> tuple[int, int] | None:
    """Return a value that changes whenever the file is replaced."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def lies_in_a_log_dir(path: str) -> bool:
    """Return whether the path is in a log directory, or in one of its partitions."""
    directory = os.path.dirname(os.path.abspath(path))
    if _holds(directory, *_OF_LOG_DIRS) or _holds(os.path.dirname(directory), *_OF_LOG_DIRS):
        return True
    is_partition = parse_partition_directory(os.path.basename(directory)) is not None
    return is_partition and _holds(directory, kinds.LOG)


_OF_LOG_DIRS = (kinds.META_PROPERTIES, kinds.RECOVERY_POINTS, kinds.HIGH_WATERMARKS, kinds.LOG_STARTS)


def _holds(directory: str, *wanted: kinds.FileKind) -> bool:
    try:
        return any(kinds.kind_of(name).kind in wanted for name in os.listdir(directory))
    except OSError:
        return False


def _identity(segment: Segment) -> list[list[Any]]:
    """Return the name, inode, size and modification time of every file of the segment."""
    return [
        [f.name, f.identity[1], f.size, f.modified_ms] for f in sorted(segment.files, key=lambda f: f.name)
    ]


def tail_checksum(log: FileEntry) -> int | None:
    """Return a checksum of the last bytes; None if they cannot be read."""
    try:
        with open_source(log.path, Guest(cache_keep=True)) as source:
            return int(crc32c(source.read(max(0, log.size - TAIL), TAIL)))
    except (OSError, KafkatoolError):
        return None


def _check(row: dict[str, Any]) -> int:
    return int(crc32c(json.dumps(row).encode()))


def facts_row(facts: LogFacts) -> dict[str, Any]:
    """Return the facts of a log without damage as JSON values."""
    row: dict[str, Any] = {name: getattr(facts, name) for name in _KEPT}
    row["producers"] = {
        str(producer_id): [getattr(trail, f.name) for f in fields(trail)]
        for producer_id, trail in facts.producers.items()
    }
    row["aborted"] = facts.aborted
    return row


def facts_of_row(row: dict[str, Any]) -> LogFacts:
    """Return the facts from a row written by `facts_row`."""
    facts = LogFacts()
    for name in _KEPT:
        setattr(facts, name, row[name])
    for producer_id, values in row["producers"].items():
        first, epoch, changed, last, timestamp_ms, coordinator, opened, current = values
        facts.producers[int(producer_id)] = Trail(
            first,
            epoch,
            changed,
            None if last is None else LastBatch(*last),
            timestamp_ms,
            coordinator,
            _transaction(opened),
            _transaction(current),
        )
    facts.aborted = [
        Aborted(marker, producer_id, _transaction(transaction), is_first)
        for marker, producer_id, transaction, is_first in row["aborted"]
    ]
    return facts


def _transaction(values: list[Any] | None) -> Transaction | None:
    return None if values is None else Transaction(*values)
