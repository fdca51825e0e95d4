"""A directory of runs: each is complete or does not exist, and a reader of one never sees another.

    LAKE/current -> run-000007
    LAKE/run-000007/manifest.json            time, release, and totals
    LAKE/run-000007/state.ndjson             one line per partition: what the next run need not read again
    LAKE/run-000007/segments/topic=orders/part-0.parquet
    LAKE/run-000007/batches/topic=orders/root=a/....parquet

A run is built under a name that begins with a dot and renamed when all of it is on disk; then `current` is
replaced. Files of unchanged batches are shared between runs. A run to be removed is first renamed so that its
name begins with a dot. The next run removes what a killed run leaves.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from kafkatool.engine.advice.table import Advice
from kafkatool.engine.audit.kept_partition import Unit, from_json, to_json
from kafkatool.engine.files.copying import keep_copy
from kafkatool.engine.files.disk import Files
from kafkatool.engine.files.whole_files import make_directories, remove_tree, write_file
from kafkatool.engine.records.subject import is_inside
from kafkatool.errors import KafkatoolError, Refused, UsageError

CURRENT, MANIFEST, STATE, LOCK = "current", "manifest.json", "state.ndjson", ".kafkatool-lake"
VERSION = 1
_RUN = re.compile(r"run-(\d{6,})")
_UNFINISHED = re.compile(r"\.run-\d{6,}-[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class AuditRun:
    """One complete run."""

    directory: str
    manifest: dict[str, Any]

    def units(self) -> Iterator[Unit]:
        """Read the partitions from the state file. Raises KafkatoolError if it is damaged."""
        path = os.path.join(self.directory, STATE)
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                for line in file:
                    yield from_json(line)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise KafkatoolError(f"{path}: is damaged ({error}); run it into a new directory") from None


def is_lake(path: str) -> bool:
    """Return whether a path is a lake, or one run in a lake."""
    return any(os.path.isfile(os.path.join(path, *name)) for name in ((CURRENT, MANIFEST), (MANIFEST,)))


def read_run(path: str) -> AuditRun:
    """Return the current run of a lake, or the run at `path`. Raises UsageError or KafkatoolError."""
    directory = os.path.realpath(os.path.join(path, CURRENT))
    directory = directory if os.path.isdir(directory) else path
    try:
        with open(os.path.join(directory, MANIFEST), encoding="utf-8") as file:
            manifest = json.load(file)
        if manifest["version"] != VERSION:
            raise KafkatoolError(f"{path}: written by another release of kafkatool")
    except (OSError, KeyError, TypeError, ValueError):
        raise UsageError(f"{path}: no audit there: {Advice.AUDIT(lake=path)}") from None
    return AuditRun(directory, manifest)


@contextmanager
def locked(path: str, files: Files) -> Iterator[None]:
    """Lock the lake, creating it if needed. Raises Refused if another run has it, or it is no lake."""
    make_directories(files, path)
    names, lock = set(os.listdir(path)), os.path.join(path, LOCK)
    if names and LOCK not in names:
        raise Refused(f"{path}: is not empty, and no lake of kafkatool")
    if not names:
        with suppress(FileExistsError):
            files.create(lock).close()
        files.sync_directory(path)  # without the lock file, later content would not count as a lake
    file = files.open(lock)
    try:
        if not file.lock():
            raise Refused(f"{path}: another run is writing to it")
        yield
    finally:
        file.close()


def refuse_inside(path: str, roots: Iterable[str]) -> None:
    """Raise Refused for a path in a log directory: a broker fails on directories that it does not know."""
    for root in roots:
        if "://" not in root and is_inside(path, root):
            raise Refused(f"{path}: is inside {root}, where only a broker writes")


class NewRun:
    """A run that is being built, within `locked`."""

    def __init__(self, path: str, files: Files) -> None:
        self.path = os.path.abspath(path)
        self.files = files
        for name in os.listdir(self.path):
            if _UNFINISHED.fullmatch(name):
                self._remove(os.path.join(self.path, name))
        numbers = [int(found.group(1)) for name in os.listdir(path) if (found := _RUN.fullmatch(name))]
        self.number = max(numbers, default=0) + 1
        self._work = self._unfinished()
        self.staging = os.path.join(self._work, "staging")
        make_directories(files, self.staging)

    def _unfinished(self) -> str:
        """Return a unique name: tasks of a killed run may still write to the old one."""
        return os.path.join(self.path, f".run-{self.number:06d}-{uuid.uuid4().hex}")

    def commit(
        self, units: list[Unit], manifest: dict[str, Any], earlier: dict[str, str], *, keep: int
    ) -> str:
        """Write the tables and make the run the current one. `earlier`: root -> run with its batches."""
        from kafkatool.engine.audit.arrow_tables import write_tables

        write_tables(units, self._work, self.files)
        self._place_batches(units, earlier)
        remove_tree(self.files, self.staging)
        state = "".join(f"{to_json(unit)}\n" for unit in units).encode("utf-8", "surrogateescape")
        write_file(self.files, os.path.join(self._work, STATE), state)
        content = json.dumps({"version": VERSION, "run": self.number, **manifest}, indent=1)
        write_file(self.files, os.path.join(self._work, MANIFEST), content.encode() + b"\n")
        for directory, _names, _files in os.walk(self._work):
            self.files.sync_directory(directory)
        name = f"run-{self.number:06d}"
        self.files.rename(self._work, os.path.join(self.path, name))
        self._point_at(name)
        self._forget(keep)
        return os.path.join(self.path, name)

    def _place_batches(self, units: list[Unit], earlier: dict[str, str]) -> None:
        from kafkatool.engine.audit.arrow_tables import root_directory, topic_directory
        from kafkatool.engine.audit.root import staging_of

        make_directories(self.files, os.path.join(self._work, "batches"))
        for unit in units:
            inside = os.path.join("batches", topic_directory(unit.topic), root_directory(unit.root))
            for part in (part for segment in unit.segments for part in segment.parts):
                target = os.path.join(self._work, inside, part)
                make_directories(self.files, os.path.dirname(target))
                staged = os.path.join(staging_of(self.staging, unit.root), part)
                if os.path.exists(staged):
                    self.files.rename(staged, target)
                else:
                    keep_copy(_find(earlier.get(unit.root, ""), unit, part), target, self.files)

    def _point_at(self, name: str) -> None:
        link = self._unfinished()
        self.files.symlink(name, link)
        self.files.sync_directory(self.path)  # before `current` points at the run
        self.files.rename(link, os.path.join(self.path, CURRENT))
        self.files.sync_directory(self.path)

    def _forget(self, keep: int) -> None:
        names = sorted(name for name in os.listdir(self.path) if _RUN.fullmatch(name))
        for name in names[:-keep]:
            going = self._unfinished()
            with suppress(OSError):
                self.files.rename(os.path.join(self.path, name), going)
                self.files.sync_directory(self.path)
                remove_tree(self.files, going)

    def abandon(self) -> None:
        self._remove(self._work)

    def _remove(self, path: str) -> None:
        """Remove an unfinished run; if that fails now, the next run removes it."""
        with suppress(OSError):
            remove_tree(self.files, path)


def _find(run: str, unit: Unit, part: str) -> str:
    """Return a file of batches in an earlier run, whatever its root was called there."""
    from kafkatool.engine.audit.arrow_tables import topic_directory

    topic = os.path.join(run, "batches", topic_directory(unit.topic))
    with suppress(OSError):
        for root in os.listdir(topic):
            path = os.path.join(topic, root, part)
            if os.path.exists(path):
                return path
    raise KafkatoolError(f"{topic}: {part} is missing: run it into a new directory")
