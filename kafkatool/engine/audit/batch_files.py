"""Write the batches of one log as Parquet while it is verified.

Every split writes its batches to its own file. The result of the walk names the files that count, so the file
of a split that was walked again after damage is simply ignored.
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
            # Not from reading the log: a lake that is not mounted here must not look like a missing log.
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
    """A file of batches, created with the first batch, and visible only when complete."""

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
                # Spark may run the same task twice at once.
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
