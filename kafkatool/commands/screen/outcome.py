"""The worst finding of a run, and the exit code that follows from it."""

from __future__ import annotations

from collections.abc import Iterable

from kafkatool.commands.screen.talk import Talk
from kafkatool.engine.batches.damage import Damage, Severity
from kafkatool.errors import ExitCode


class RunOutcome:
    """The worst finding so far, and whether the run failed."""

    def __init__(self) -> None:
        self.worst: Severity | None = None
        self.failed = False
        self.unread: list[str] = []
        """Files that were named, but not shown because their kind is unknown."""
        self.named: set[str] = set()
        """Files that were named explicitly: if one is gone, that is a failure; others may come and go."""

    def met(self, damage: Damage) -> None:
        self.met_severity(damage.severity)

    def met_severity(self, severity: Severity) -> None:
        self.worst = severity if self.worst is None else max(self.worst, severity)

    def fail(self, talk: Talk, problems: Iterable[str]) -> None:
        """Report what could not be read or done."""
        for problem in problems:
            talk.warn(problem)
            self.failed = True

    def exit_code(self, fail_on: Severity = Severity.DEGRADED) -> ExitCode:
        if self.failed:
            return ExitCode.FAILED
        if self.worst is not None and self.worst >= fail_on:
            return ExitCode.FOUND
        return ExitCode.USAGE if self.unread else ExitCode.OK
