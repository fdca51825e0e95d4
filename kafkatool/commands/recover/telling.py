"""The output of `recover`: what a start does to each partition, what that loses, and the steps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from kafkatool.commands.rows.plans import RECOVERIES, STEP_COLUMNS, conclude, show_plan, topic_in
from kafkatool.commands.screen.outcome import RunOutcome
from kafkatool.commands.screen.table import Column, Look, Rows, rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.told import told
from kafkatool.commands.screen.values import Format, Row, iso_time
from kafkatool.engine.advice.table import Advice
from kafkatool.engine.batches.row_fields import REPLICAS, values
from kafkatool.engine.cluster.view import Replicas
from kafkatool.engine.directory.selection import Home
from kafkatool.engine.jobs.worker_pool import Workers
from kafkatool.engine.recover.assignment import PartitionFate
from kafkatool.engine.recover.run import (
    BetterElsewhere,
    PartitionRecovered,
    PartitionSalvaged,
    RecoveryRun,
    StartEnds,
)

EVENT_COLUMNS = (
    Column("partition_name", "PARTITION"),
    Column("segment", "SEGMENT", Look.number),
    Column("what", "WHAT"),
    Column("first_offset", "FROM", Look.number),
    Column("last_offset", "TO", Look.number),
    Column("message", "WHY"),
)


@dataclass(frozen=True, slots=True)
class RecoveryTelling:
    """Rows go to stdout, sentences to stderr."""

    run: RecoveryRun
    talk: Talk
    outcome: RunOutcome
    fmt: Format
    raw: bool

    def tell(self, home: Home, pool: Workers) -> None:
        """Show what a start does with one directory and, if requested, do the same."""
        size = sum(named.log_bytes for named in home.partitions)
        with self.talk.progress("reading", size) as advance:
            [found] = told(self.run.start(home, pool, advance), self.talk, self.outcome)
        with rows(self.fmt, EVENT_COLUMNS, raw=self.raw) as out:
            for event in told(self.run.outcome(found), self.talk, self.outcome):
                self._write(event, out)
        shows_steps = self.fmt is Format.ndjson or self.talk.verbose
        with rows(self.fmt, STEP_COLUMNS if self.fmt is not Format.csv else (), raw=self.raw) as out:
            if shows_steps:
                show_plan(found.plan, out, self.fmt)
            self.talk.warn_of_bad_blocks(self.run.guest.errors.count)
            conclude(found.plan, self.run.how, self.talk, out, self.fmt, do_apply=self.run.is_applied)

    def _write(self, event: object, out: Rows) -> None:
        match event:
            case StartEnds(log_dir, what, reason):
                out.write(self._row(log_dir, what, None, reason))
            case PartitionRecovered():
                for row in self._recovered(event):
                    out.write(row)
            case BetterElsewhere(path, metadata_ms, nodes, is_in_sync):
                has_it = "has it in sync" if is_in_sync else "is eligible to lead it"
                self.talk.warn(
                    f"{path}: by the metadata of {iso_time(metadata_ms)} node {', '.join(map(str, nodes))} "
                    f"{has_it}: better set this copy aside and let the broker fetch it again"
                )
            case PartitionSalvaged():
                for row in self._salvaged(event):
                    out.write(row)

    def _recovered(self, found: PartitionRecovered) -> Iterator[Row]:
        one = found.recovered
        for event in one.events:
            if event.what == "scan" and self.fmt is Format.table and not self.talk.verbose:
                continue
            row = self._row(one.path, event.what, event.segment, event.message, found.replicas)
            last = one.lost_to if event.what == "cut" else event.last_offset
            offsets = {"first_offset": event.first_offset, "last_offset": last}
            yield {**row, "position": event.position, **offsets}
        if found.fate is not None:
            yield self._row(one.path, found.fate.what, None, _fate_sentence(one.path, found.fate))

    def _salvaged(self, found: PartitionSalvaged) -> Iterator[Row]:
        saved = found.saved
        text = f"{saved.batches} good batches in {saved.directory}: for reading, they are no replica"
        row = self._row(found.path, "salvage", None, text)
        yield {**row, "first_offset": saved.first_offset, "last_offset": saved.last_offset}
        for txn in saved.transactions:
            text = f"transaction of producer {txn.producer_id}: {txn.message}"
            row = self._row(found.path, "unprovable", None, text)
            yield {**row, "first_offset": txn.first_offset, "last_offset": txn.last_offset}

    def _row(
        self, path: str, what: str, segment: int | None, message: str, replicas: Replicas | None = None
    ) -> Row:
        where = {"directory": path, **topic_in(path), "segment": segment, **values(REPLICAS, replicas)}
        row = RECOVERIES.row(**where, what=what, message=message)
        name = os.path.basename(os.path.normpath(path))
        return row if self.fmt is Format.ndjson else {**row, "partition_name": name}


def _fate_sentence(path: str, fate: PartitionFate) -> str:
    if fate.home is None:
        return fate.message
    return f"{fate.message}; first: {Advice.MOVE_COPY_HOME(where=path, home=fate.home)}"
