"""The output of `rebuild-index`: what is wrong beside a log, the damage in it, and the steps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kafkatool.commands.rows.batches import LogPlace, damage_row, damage_sentence
from kafkatool.commands.rows.plans import STEP_COLUMNS, conclude, step_row, write_row
from kafkatool.commands.screen.outcome import RunOutcome
from kafkatool.commands.screen.table import Rows, rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.told import told
from kafkatool.commands.screen.values import Format
from kafkatool.engine.directory.selection import Home
from kafkatool.engine.jobs.worker_pool import Workers
from kafkatool.engine.rebuild.planning import Rebuilt
from kafkatool.engine.rebuild.run import RebuildRun


@dataclass(slots=True)
class RebuildTelling:
    """Rows go to stdout, sentences to stderr."""

    run: RebuildRun
    talk: Talk
    outcome: RunOutcome
    fmt: Format
    out: Rows = field(init=False)

    @contextmanager
    def rows(self, *, raw: bool) -> Iterator[None]:
        """Open the output for rows."""
        with rows(self.fmt, STEP_COLUMNS, raw=raw) as self.out:
            yield

    def tell(self, home: Home, pool: Workers) -> None:
        """Show what is wrong in one directory and, if requested, rebuild it."""
        size = sum(named.log_bytes for named in home.partitions)
        with self.talk.progress("reading", size) as advance:
            [done] = told(self.run.rebuild(home, pool, advance), self.talk, self.outcome)
        for part in done.parts:
            self._part(part)
        self.talk.warn_of_bad_blocks(self.run.guest.errors.count)
        conclude(done.plan, self.run.how, self.talk, self.out, self.fmt, do_apply=self.run.is_applied)

    def _part(self, part: Rebuilt) -> None:
        for difference in part.differences:
            counts = (difference.entries, difference.only_there, difference.only_here)
            write_row(self.out, step_row(difference.step, difference.size_before, counts), self.fmt)
        for path, damage in part.damage:
            self.outcome.met(damage)
            place = LogPlace.of(path, self.run.guest)
            if self.fmt is Format.ndjson:
                self.out.write(damage_row(place, damage))
            else:
                self.talk.warn(damage_sentence(place, damage))
        if part.damage:
            directory = os.path.basename(os.path.abspath(part.partition.path))
            self.talk.warn(f"{directory}: transactions and snapshots after the damage are left as they are")
