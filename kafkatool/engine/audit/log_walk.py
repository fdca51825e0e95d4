"""One log of an audit: the facts that `verify` gathers, sums over its batches, and the batches themselves.

This is a job for survey.py. Every split writes its batches to a Parquet file of its own, beside the others of
the run; which of those files count is said by the facts, so that one of a split that was walked again behind
damage is simply left.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from kafkatool.engine.audit.facts import AuditFacts
from kafkatool.engine.files.disk import Disk, Files
from kafkatool.engine.files.source import AnySource
from kafkatool.engine.files.whole_files import Replacement
from kafkatool.engine.jobs.survey import Split
from kafkatool.engine.verify.columns import ColumnsWalk
from kafkatool.engine.verify.log_facts import LogFacts
from kafkatool.engine.verify.walk import LogJob
from kafkatool.errors import KafkatoolError
from kafkatool.format.columns import BatchColumns

ROWS_IN_GROUP = 1 << 17


@dataclass(frozen=True, slots=True)
class AuditJob(LogJob):
    """What to check of one log, and where its batches go: `directory/name-POSITION.parquet`."""

    directory: str = ""
    name: str = ""
    partition: int | None = None
    segment: int = 0
    files: Files = field(default_factory=Disk)

    def begin(self, position: int) -> LogFacts:
        return AuditFacts(start=position, stop=position)

    def walk(self, split: Split, source: AnySource, before: LogFacts | None) -> LogFacts:
        walk = _AuditWalk(self, split, source, before)
        try:
            return walk.audit()
        except OSError as error:
            # Reading raises none: a lake that is not mounted here must not look like a log that is gone.
            raise KafkatoolError(f"{walk.part.path}: cannot be written here: {error.strerror}") from None
        finally:
            walk.part.abandon()

    def merge(self, a: LogFacts, b: LogFacts) -> LogFacts | None:
        assert isinstance(a, AuditFacts)
        assert isinstance(b, AuditFacts)
        if a.failure or a.vanished or a.changed:
            return a
        sums, parts = a.sums, a.parts
        both = LogJob.merge(self, a, b)
        if both is None:
            return None
        assert isinstance(both, AuditFacts)
        sums.join(b.sums)
        both.sums, both.parts = sums, parts + b.parts
        return both


class _AuditWalk(ColumnsWalk):
    def __init__(self, job: AuditJob, split: Split, source: AnySource, before: LogFacts | None) -> None:
        super().__init__(job, split, source, before)
        assert isinstance(self.facts, AuditFacts)
        self.audited = self.facts
        name = f"{job.name}-{self.facts.stop}.parquet"
        self.part = _BatchPart(job, os.path.join(job.directory, name))

    def audit(self) -> LogFacts:
        facts = self.run()
        if self.part.close():
            self.audited.parts.append(os.path.basename(self.part.path))
        return facts

    def take(self, columns: BatchColumns) -> None:
        self.audited.sums.add(columns)
        self.part.add(columns)


class _BatchPart:
    """A file of batches, made when the first comes, and there only when it is whole."""

    def __init__(self, job: AuditJob, path: str) -> None:
        self.path = path
        self._job = job
        self._file: Replacement | None = None
        self._writer: Any = None
        self._held: list[Any] = []
        self._rows = 0

    def add(self, columns: BatchColumns) -> None:
        from kafkatool.engine.audit.batch_table import batch_rows

        self._held.append(batch_rows(columns, self._job.partition, self._job.segment))
        self._rows += len(columns.position)
        if self._rows >= ROWS_IN_GROUP:
            self._flush()

    def _flush(self) -> None:
        from kafkatool.engine.audit.batch_table import open_batches, write_group

        if self._held:
            if self._file is None:
                # Spark may run a task twice at the same time.
                self._file = Replacement(self._job.files, self.path)
                self._writer = open_batches(self._file)
            write_group(self._writer, self._held)
        self._held, self._rows = [], 0

    def close(self) -> bool:
        """Whether there was anything."""
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
