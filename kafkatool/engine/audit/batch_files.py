"""The batches of one log as Parquet, seen while it is verified.

Every split writes its batches to a file of its own, beside the others of the run. What the walk brings back
says which of those files count, so that one of a split that was walked again behind damage is simply left.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from kafkatool.engine.batches.observers import Observer
from kafkatool.errors import KafkatoolError
from kafkatool.format.columns import BatchColumns

ROWS_IN_GROUP = 1 << 17


@dataclass(slots=True)
class BatchFiles(Observer):
    """Where the batches of one log go: `directory/name-POSITION.parquet`."""

    directory: str
    name: str
    partition: int | None = None
    segment: int = 0
    parts: list[str] = field(default_factory=list)
    """Names of the files with its batches: each is there only when it is whole."""
    _temporary: str = ""
    _writer: Any = None
    _held: list[Any] = field(default_factory=list)
    _rows: int = 0

    @contextmanager
    def walking(self, position: int) -> Iterator[None]:
        path = os.path.join(self.directory, f"{self.name}-{position}.parquet")
        self._temporary = f"{path}.{uuid.uuid4().hex}.tmp"  # Spark may run a task twice at the same time
        try:
            yield
            self._flush()
            if self._writer is not None:
                self._commit(path)
        except OSError as error:
            # Reading raises none: a lake that is not mounted here must not look like a log that is gone.
            raise KafkatoolError(f"{path}: cannot be written here: {error.strerror}") from None
        finally:
            self._abandon()

    def take(self, columns: BatchColumns) -> None:
        from kafkatool.engine.audit.batch_table import batch_rows

        self._held.append(batch_rows(columns, self.partition, self.segment))
        self._rows += len(columns.position)
        if self._rows >= ROWS_IN_GROUP:
            self._flush()

    def merge(self, behind: Self) -> None:
        self.parts += behind.parts

    def _flush(self) -> None:
        from kafkatool.engine.audit.batch_table import open_batches, write_group

        if self._held:
            self._writer = self._writer or open_batches(self._temporary)
            write_group(self._writer, self._held)
        self._held, self._rows = [], 0

    def _commit(self, path: str) -> None:
        self._writer.close()
        self._writer = None
        with open(self._temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(self._temporary, path)
        self.parts.append(os.path.basename(path))

    def _abandon(self) -> None:
        self._held, self._rows = [], 0
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            os.unlink(self._temporary)
