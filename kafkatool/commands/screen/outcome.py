"""The worst that a run has met, and the exit code that follows from it."""

from __future__ import annotations

from collections.abc import Iterable

from kafkatool.commands.screen.talk import Talk
from kafkatool.engine.batches.damage import Damage, Severity
from kafkatool.errors import ExitCode


class RunOutcome:
    """The worst that was met, and with it the exit code."""

    def __init__(self) -> None:
        self.worst: Severity | None = None
        self.failed = False
        self.unread: list[str] = []
        """Files that were named, and of which nothing was shown because they are nothing that is known."""
        self.named: set[str] = set()
        """The files that were asked for by name: one that is gone is a failure, others come and go."""

    def met(self, damage: Damage) -> None:
        self.met_severity(damage.severity)

    def met_severity(self, severity: Severity) -> None:
        self.worst = severity if self.worst is None else max(self.worst, severity)

    def fail(self, talk: Talk, problems: Iterable[str]) -> None:
        """Say what could not be read or done."""
        for problem in problems:
            talk.warn(problem)
            self.failed = True

    def exit_code(self, fail_on: Severity = Severity.DEGRADED) -> ExitCode:
        if self.failed:
            return ExitCode.FAILED
        if self.worst is not None and self.worst >= fail_on:
            return ExitCode.FOUND
        return ExitCode.USAGE if self.unread else ExitCode.OK
