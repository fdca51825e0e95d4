"""Read a growing log directory as a Spark stream: every committed record once, by its offset.

The offsets of a stream are JSON: `{"root/topic-0": next offset}`. In every partition a micro-batch ends where
a consumer of committed records would have to wait: at the high watermark, the first open transaction, or the
end of the last whole batch. With the option `all` only the last of these counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from socket import gethostname
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from kafkatool.engine.batches.partition_walk import PartitionWalk, SegmentLog
from kafkatool.engine.records.fates import Transactions, open_at
from kafkatool.engine.records.subject import Subject, logs_of
from kafkatool.engine.records.visibility import LOG_END
from kafkatool.errors import KafkatoolError
from kafkatool.spark.losses import DataLoss, need_all
from kafkatool.spark.planning import LogStretch, Wanted, find_subjects, plan
from kafkatool.spark.rows import RowReader
from kafkatool.spark.schemas import Granularity
from kafkatool.spark.tasks import Stretches

Offsets = dict[str, int]


@dataclass(slots=True)
class _Growing:
    """How far one partition was read; only what is new is read the next time."""

    subject: Subject
    transactions: Transactions

    def end(self, *, show_all: bool) -> int:
        self.transactions.look_again()
        stable = self.transactions.last_stable_offset(LOG_END - 1, self.subject.high_watermark)
        reached = self.transactions.reached + 1
        return reached if show_all else min(reached, stable)


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Any, rows: RowReader) -> None:
        if options.granularity is not Granularity.RECORDS:
            raise KafkatoolError("kafkalog: a stream is of records")
        self.options = options
        self.rows = rows
        self._growing: dict[str, _Growing] = {}
        self._until: Offsets | None = None

    # --- how far it is -------------------------------------------------------------------------------------

    def initialOffset(self) -> Offsets:  # noqa: N802
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self.options.most_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._until = self._ends()

    def reportLatestOffset(self) -> Offsets:  # noqa: N802
        return self._ends()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        """Return where the next micro-batch ends: never before its start, and limited in offsets."""
        ends = self._ends() if self._until is None else self._until
        self._need(start, ends)
        room = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        found = dict(start)
        begins = {name: start.get(name, self._first(name)) for name in sorted(ends)}
        new = [name for name, begin in begins.items() if ends[name] > begin]  # others may be truncated
        for number, name in enumerate(new):
            there = ends[name] - begins[name]
            if room is not None:
                there = min(there, -(-room // (len(new) - number)))  # every partition gets a share
                room -= there
            if there:
                found[name] = begins[name] + there
        return found

    def _first(self, name: str) -> int:
        """Return the base offset of the first segment: nothing lies before it."""
        growing = self._growing.get(name)
        logs = [] if growing is None else logs_of(growing.subject.named)
        return logs[0].base_offset if logs else 0

    def _ends(self) -> Offsets:
        ends: Offsets = {}
        for root, subject in self._subjects():
            name = f"{root}/{subject.name}"
            known = self._growing.get(name)
            if known is None:
                known = self._growing[name] = _Growing(subject, self._transactions(subject))
            known.subject = subject
            ends[name] = known.end(show_all=self.options.show_all)
        return ends

    def _subjects(self) -> list[tuple[str, Subject]]:
        """Return every existing partition. Raises DataLoss if something that was named cannot be read."""
        found = find_subjects(self.options.paths, self.options.guest)
        need_all(found, self.options.fails_on_loss)
        return found.subjects

    def _need(self, names: Iterable[str], there: Collection[str]) -> None:
        """Raise DataLoss if a partition that was read before is gone."""
        gone = sorted(name for name in names if name not in there)
        if gone and self.options.fails_on_loss:
            raise DataLoss(
                f"{', '.join(gone[:3])}: read before, and not there any more on host {gethostname()}: "
                "deleted, renamed, or not mounted; failOnDataLoss=false goes on without"
            )

    def _transactions(self, subject: Subject) -> Transactions:
        guest, path = self.options.guest, subject.partition.path

        def logs() -> list[SegmentLog]:
            from kafkatool.engine.directory.log_dir import read_partition

            try:
                return logs_of(subject.named, read_partition(path, [], guest))
            except KafkatoolError:
                return []

        walk = PartitionWalk(logs, guest, is_growing=True)
        there = logs()
        if not there:
            return Transactions(walk)
        begin, still_open = open_at(there, len(there) - 1, guest)
        walk.go_to(there[begin].base_offset, 0)
        return Transactions(walk, still_open)

    # --- what is read --------------------------------------------------------------------------------------

    def partitions(self, start: Offsets, end: Offsets) -> list[Any]:
        found: list[Stretches] = []
        subjects = self._subjects()
        new = [name for name, behind in end.items() if behind > start.get(name, 0)]
        self._need(new, {f"{root}/{subject.name}" for root, subject in subjects})
        for root, subject in subjects:
            name = f"{root}/{subject.name}"
            first, behind = start.get(name, 0), end.get(name, 0)
            if behind <= first:
                continue
            wanted = Wanted(first_offset=first, last_offset=behind - 1)
            packs = plan([(root, subject)], wanted, self.options.guest, self.options.split_size)
            found += [Stretches([_within(one, first, behind) for one in pack]) for pack in packs]
        return found

    def read(self, partition: Any) -> Iterator[Any]:
        if isinstance(partition, Stretches):
            yield from self.rows.read(partition.stretches)

    def commit(self, end: Offsets) -> None:
        """Do nothing: no state is kept that could be dropped."""

    def stop(self) -> None:
        """Do nothing: nothing is held open."""

    def __getstate__(self) -> dict[str, Any]:
        """Pickle only what tasks need."""
        return {"options": self.options, "rows": self.rows, "_growing": {}, "_until": None}


def _within(stretch: LogStretch, first: int, behind: int) -> LogStretch:
    # Decisions made when the offsets were reported stay.
    return replace(stretch, from_offset=first, to_offset=behind, high_watermark=LOG_END)
