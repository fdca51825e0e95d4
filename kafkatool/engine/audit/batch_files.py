"""The batches of one log as Parquet, seen while it is verified.

Every split writes its batches to a file of its own, beside the others of the run. What the walk brings back
says which of those files count, so that one of a split that was walked again behind damage is simply left.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self

from kafkatool.engine.batches.observers import Observer
from kafkatool.engine.files.disk import Files
from kafkatool.engine.files.whole_files import Replacement
from kafkatool.errors import KafkatoolError
from kafkatool.format.columns import BatchColumns

ROWS_IN_GROUP = 1 << 17


@dataclass(slots=True)
class BatchFiles(Observer):
    """Where the batches of one log go: `directory/name-POSITION.parquet`."""

    files: Files
    directory: str
    name: str
    partition: int | None = None
    segment: int = 0
    parts: list[str] = field(default_factory=list)
    """Names of the files with its batches."""
    _open: _BatchPart | None = None

    def fresh(self) -> Self:
        return replace(self, parts=[])  # into the same files

    @contextmanager
    def walking(self, position: int) -> Iterator[None]:
        path = os.path.join(self.directory, f"{self.name}-{position}.parquet")
        part = self._open = _BatchPart(self, path)
        try:
            yield
            if part.close():
                self.parts.append(os.path.basename(path))
        except OSError as error:
            # Reading raises none: a lake that is not mounted here must not look like a log that is gone.
            raise KafkatoolError(f"{path}: cannot be written here: {error.strerror}") from None
        finally:
            part.abandon()
            self._open = None

    def take(self, columns: BatchColumns) -> None:
        assert self._open is not None
        self._open.add(columns)

    def merge(self, behind: Self) -> None:
        self.parts += behind.parts


class _BatchPart:
    """A file of batches, made when the first comes, and there only when it is whole."""

    def __init__(self, to: BatchFiles, path: str) -> None:
        self.path = path
        self._to = to
        self._file: Replacement | None = None
        self._writer: Any = None
        self._held: list[Any] = []
        self._rows = 0

    def add(self, columns: BatchColumns) -> None:
        from kafkatool.engine.audit.batch_table import batch_rows

        self._held.append(batch_rows(columns, self._to.partition, self._to.segment))
        self._rows += len(columns.position)
        if self._rows >= ROWS_IN_GROUP:
            self._flush()

    def _flush(self) -> None:
        from kafkatool.engine.audit.batch_table import open_batches, write_group

        if self._held:
            if self._file is None:
                # Spark may run a task twice at the same time.
                self._file = Replacement(self._to.files, self.path)
                self._writer = open_batches(self._file)
            write_group(self._writer, self._held)
        self._held, self._rows = [], 0

    def close(self) -> bool:
        """Finish the file; return whether there was anything to write."""
        self._flush()
        if self._file is None:
            return False
        self._writer.close()
        self._file.commit()
        return True

    def abandon(self) -> None:
        if self._file is not None:
            self._file.abandon()
            self._writer.close()
