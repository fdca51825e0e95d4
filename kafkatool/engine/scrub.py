"""What an earlier run has proven: closed segments that have not changed since need not be read again.

The file is JSON, replaced as a whole, so that an interrupted run leaves what it had done. Only segments in
which nothing was wrong are remembered: what is wrong is told anew every night.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from contextlib import suppress
from dataclasses import fields
from typing import Any

from kafkatool.engine.log_facts import LogFacts
from kafkatool.engine.logdir import FileEntry, Segment
from kafkatool.engine.verify_producers import Aborted, LastBatch, Trail, Transaction
from kafkatool.errors import KafkatoolError
from kafkatool.format.checksum import crc32c
from kafkatool.format.kinds import UNKNOWN, kind_of

VERSION = 1
SAVE_EVERY = 30.0  # seconds
TAIL = 4096
_MOST_PRODUCERS = 10_000
_KEPT = (
    *("start", "stop", "first_offset", "last_offset", "last_position", "previous_offset"),
    *("batches", "records", "max_timestamp", "max_filled_timestamp", "epochs"),
    *("holes", "thinned", "has_legacy", "times_from", "times_to", "first_time_ms"),
)


class Scrub:
    """The state of a nightly check, in one file."""

    def __init__(self, path: str, *, deep: bool) -> None:
        """Read what is there; raises KafkatoolError for a file that is something else."""
        self.path = path
        self._deep = deep
        self._segments: dict[str, Any] = _load(path)
        self._seen: set[str] = set()
        self._saved = time.monotonic()

    def recall(self, segment: Segment) -> LogFacts | None:
        """The facts of a segment that is as it was when it was last found good."""
        log = segment.log
        if log is None:
            return None
        key = os.path.abspath(log.path)
        self._seen.add(key)
        kept = self._segments.get(key)
        if not isinstance(kept, dict) or (self._deep and not kept.get("deep")):
            return None
        if kept.get("identity") != _identity(segment) or kept.get("tail") != _tail(log):
            return None
        try:
            return _facts(kept["facts"])
        except (KeyError, TypeError, ValueError):
            return None

    def remember(self, segment: Segment, facts: LogFacts) -> None:
        """Keep what was found of a closed segment in which nothing is wrong."""
        log = segment.log
        if log is None or len(facts.producers) > _MOST_PRODUCERS or len(facts.aborted) > _MOST_PRODUCERS:
            return
        row = {"identity": _identity(segment), "tail": _tail(log), "deep": self._deep, "facts": _row(facts)}
        self._segments[os.path.abspath(log.path)] = row
        if time.monotonic() - self._saved > SAVE_EVERY:
            self.save()

    def forget(self, segment: Segment) -> None:
        if segment.log is not None:
            self._segments.pop(os.path.abspath(segment.log.path), None)

    def save(self, *, is_complete: bool = False) -> None:
        """Replace the file; after a complete run without the segments that are gone."""
        if is_complete:
            self._segments = {
                key: row for key, row in self._segments.items() if key in self._seen or os.path.exists(key)
            }
        directory = os.path.dirname(os.path.abspath(self.path))
        try:
            fd, name = tempfile.mkstemp(prefix=".kafkatool-", dir=directory)
            try:
                with os.fdopen(fd, "w") as out:
                    json.dump({"kafkatool_verify_state": VERSION, "segments": self._segments}, out)
                    out.flush()
                    os.fsync(out.fileno())
                os.replace(name, self.path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(name)
                raise
        except OSError as error:
            raise KafkatoolError(f"{self.path}: {error.strerror}") from None
        self._saved = time.monotonic()


def lies_in_a_log_dir(path: str) -> bool:
    """Whether a file of that name would stand among a broker's own."""
    directory = os.path.dirname(os.path.abspath(path))
    for above in (directory, os.path.dirname(directory)):
        with suppress(OSError):
            if any(kind_of(name).kind is not UNKNOWN for name in os.listdir(above)):
                return True
    return False


def _load(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            content = json.load(file)
        if content["kafkatool_verify_state"] != VERSION:
            return {}
        return dict(content["segments"])
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise KafkatoolError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise KafkatoolError(f"{path}: not a state file of kafkatool verify") from None


def _identity(segment: Segment) -> list[list[Any]]:
    """Name, inode, size and time of every file of the segment."""
    return [
        [f.name, f.identity[1], f.size, f.modified_ms] for f in sorted(segment.files, key=lambda f: f.name)
    ]


def _tail(log: FileEntry) -> int:
    """A checksum of the last bytes; -1 where they cannot be read, which equals nothing."""
    try:
        with open(log.path, "rb", buffering=0) as file:
            file.seek(max(0, log.size - TAIL))
            return int(crc32c(file.read(TAIL)))
    except OSError:
        return -1


def _row(facts: LogFacts) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(facts, name) for name in _KEPT}
    row["producers"] = {
        str(producer_id): [getattr(trail, f.name) for f in fields(trail)]
        for producer_id, trail in facts.producers.items()
    }
    row["aborted"] = facts.aborted
    return row


def _facts(row: dict[str, Any]) -> LogFacts:
    facts = LogFacts(**{name: row[name] for name in _KEPT})
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
