"""Batches of partitions, one by one or as Arrow, read from disk again for each use of the query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from kafkatool.engine.batches.column_walk import walk_batches
from kafkatool.engine.batches.damage import Damage
from kafkatool.engine.batches.partition_walk import SegmentLog
from kafkatool.engine.batches.range_columns import batches_in
from kafkatool.engine.batches.seek import seek
from kafkatool.engine.batches.segment_walk import SegmentWalk
from kafkatool.engine.files.source import open_source
from kafkatool.engine.jobs.survey import Split
from kafkatool.engine.records.subject import logs_of
from kafkatool.errors import KafkatoolError
from kafkatool.format.columns import BatchColumns
from kafkatool.format.legacy import Header
from kafkatool.library.reading import ArrowStream, NamedSubject, ReadPlan, as_datetime, log


class LogBatch(NamedTuple):
    """One good batch. Its header has the other fields."""

    topic: str | None
    partition: int | None
    file: str
    position: int
    header: Header

    @property
    def max_timestamp(self) -> datetime | None:
        return as_datetime(self.header.max_timestamp)


@dataclass(frozen=True, slots=True)
class BatchQuery(ArrowStream):
    """Batches of some partitions: iterate, or pass the query to anything that reads Arrow streams."""

    plan: ReadPlan

    def __iter__(self) -> Iterator[LogBatch]:
        from kafkatool.engine.records.stream import header_in

        for named, file, columns in self._columns():
            for number, position in enumerate(columns.position.tolist()):
                yield LogBatch(named.topic, named.partition, file, position, header_in(columns, number))

    def reader(self) -> Any:
        from kafkatool.library.arrow_stream import batch_reader

        return batch_reader(self._columns())

    def _columns(self) -> Iterator[tuple[NamedSubject, str, BatchColumns]]:
        for named in self.plan.subjects:
            for one in logs_of(named.subject.named, wanted=self.plan.wanted):
                try:
                    for columns in self._of_log(one):
                        yield named, one.path, columns
                except FileNotFoundError:
                    log.info("%s: deleted since its directory was listed", one.path)

    def _of_log(self, one: SegmentLog) -> Iterator[BatchColumns]:
        plan = self.plan
        try:
            source = open_source(one.path, plan.guest)
        except KafkatoolError as error:
            plan.fail(str(error))
            return
        with source:
            start, size = seek(source, one.path, plan.wanted, plan.guest), source.size_hint or 0
            for found in walk_batches(SegmentWalk(source, Split(one.path, start, size, size))):
                if isinstance(found, Damage):
                    plan.met(one.path, found)
                    continue
                takes = batches_in(plan.wanted, found.base_offset, found.last_offset, found.max_timestamp)
                if takes.all():
                    yield found
                elif takes.any():
                    yield BatchColumns(*(np.asarray(column)[takes] for column in found))
