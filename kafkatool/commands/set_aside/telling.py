"""The output of `set-aside`: what speaks against it, the steps, and what to wait for."""

from __future__ import annotations

import os
from dataclasses import dataclass

from kafkatool.commands.rows.plans import STEP_COLUMNS, conclude, step_row, write_row
from kafkatool.commands.screen.outcome import RunOutcome
from kafkatool.commands.screen.table import rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.told import say
from kafkatool.commands.screen.values import Format
from kafkatool.engine.plan.steps import Applying
from kafkatool.engine.repair.run import SetAsideRequest, SetAsideRun


@dataclass(frozen=True, slots=True)
class SetAsideTelling:
    """Rows go to stdout, sentences to stderr."""

    run: SetAsideRun
    request: SetAsideRequest
    talk: Talk
    outcome: RunOutcome
    fmt: Format
    raw: bool

    def tell(self, how: Applying) -> None:
        """Show what speaks against it and the plans; if requested, apply them."""
        for said in self.run.judge():
            say(said, self.talk, self.outcome)
        apply, plans = self.request.is_applied, self.run.plans()
        # A description of the cluster is more reliable than this broker's own metadata.
        warns = not self.request.has_picture
        with rows(self.fmt, STEP_COLUMNS, raw=self.raw) as out:
            for plan in plans:
                for step in plan.steps:
                    size = os.path.getsize(step.path) if os.path.isfile(step.path) else None
                    write_row(out, step_row(step, size), self.fmt)
                conclude(plan, how, self.talk, out, self.fmt, do_apply=apply, warns_of_unmarking=warns)
        for said in self.run.waiting() if apply else ():
            say(said, self.talk, self.outcome)
