"""The state of an export: the list of finished files in its directory.

`_kafkatool_export.json` records for every finished file its source log and the state of that log, so that a
second run can skip it. Readers of data sets ignore names that begin with a dot or an underscore.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from typing import Any

from kafkatool.engine.files.disk import Files
from kafkatool.engine.files.source import Guest, read_small_file
from kafkatool.engine.files.whole_files import Replacement
from kafkatool.errors import KafkatoolError

MANIFEST = "_kafkatool_export.json"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class ExportOrigin:
    """A log as it was when exported, and the settings of the export."""

    log: str
    size: int
    mtime_ns: int
    inode: int
    log_start: int
    """The first offset of this log that was not hidden as deleted."""
    settings: str

    @classmethod
    def of(cls, path: str, base_offset: int, log_start: int, settings: str) -> ExportOrigin:
        """Describe a log as it is now. Raises OSError if it is gone."""
        found = os.stat(path)
        return cls(
            os.path.abspath(path),
            found.st_size,
            found.st_mtime_ns,
            found.st_ino,
            max(base_offset, log_start),
            settings,
        )


@dataclass(frozen=True, slots=True)
class ExportDone:
    """One finished file."""

    origin: ExportOrigin
    rows: int
    is_final: bool
    """Whether nothing was hidden that may become visible later."""
    worst: str | None = None
    """The severity of the worst damage found."""


class Manifest:
    """The finished files of a directory; rewritten after every file."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._done: dict[str, ExportDone] = _read(os.path.join(directory, MANIFEST))

    def finished(self, name: str, origin: ExportOrigin) -> ExportDone | None:
        """Return the entry of a file that need not be written again; None if it must be."""
        done = self._done.get(name)
        if done is None or not done.is_final or done.origin != origin:
            return None
        return done if os.path.exists(os.path.join(self._directory, name)) else None

    def put(self, name: str, done: ExportDone) -> None:
        self._done[name] = done
        content = {
            "version": _VERSION,
            "files": {name: asdict(one) for name, one in sorted(self._done.items())},
        }
        with Replacement(self._files, os.path.join(self._directory, MANIFEST)) as new:
            new.write(json.dumps(content, indent=1).encode() + b"\n")
            new.commit()


def _read(path: str) -> dict[str, ExportDone]:
    """Read the manifest; one that cannot be read counts as missing, so everything is done again."""
    try:
        content: Any = json.loads(read_small_file(path, Guest()))
        if content["version"] != _VERSION:
            return {}
        return {str(name): _done(entry) for name, entry in content["files"].items()}
    except (FileNotFoundError, KafkatoolError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _done(entry: dict[str, Any]) -> ExportDone:
    origin = ExportOrigin(**{field.name: entry["origin"][field.name] for field in fields(ExportOrigin)})
    return ExportDone(origin, int(entry["rows"]), bool(entry["is_final"]), entry["worst"])
