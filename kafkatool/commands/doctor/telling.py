"""The output of `doctor`: the verdict on each broker, and its findings."""

from __future__ import annotations

from dataclasses import dataclass

from kafkatool.commands.rows.diagnosis import diagnosis_row, finding_lines, summary_text, verdict_text
from kafkatool.commands.rows.findings import FINDING_COLUMNS, finding_row
from kafkatool.commands.screen.outcome import RunOutcome
from kafkatool.commands.screen.table import painted_heading, painted_severity, rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import Format, printable, stdout
from kafkatool.engine.doctor.examination import Diagnosis


@dataclass(frozen=True, slots=True)
class DiagnosisTelling:
    """Rows and verdicts go to stdout, other sentences to stderr."""

    talk: Talk
    outcome: RunOutcome
    fmt: Format
    raw: bool
    every: bool
    """Whether notes are shown, too."""

    def tell(self, found: Diagnosis) -> None:
        """Show what one broker comes to, and record it for the exit code."""
        if self.fmt is Format.table:
            self._print(found)
        else:
            self._write(found)
        if self.fmt is Format.csv:
            self.talk.warn(f"{found.broker.name}: {verdict_text(found)}")
        self.outcome.fail(self.talk, found.chart.failures)
        for note in found.chart.notes:
            self.talk.note(note)
        if found.worst is not None:
            self.outcome.met_severity(found.worst)

    def _write(self, found: Diagnosis) -> None:
        with rows(self.fmt, FINDING_COLUMNS, raw=self.raw) as out:
            for finding in found.chart.findings:
                out.write(finding_row(finding))
            if self.fmt is Format.ndjson:
                out.write(diagnosis_row(found))

    def _print(self, found: Diagnosis) -> None:
        out = stdout()
        verdict = f"{found.broker.name}: {verdict_text(found)}"
        print(painted_heading(printable(verdict), out), file=out)
        for severity, text in finding_lines(found.chart.findings, every=self.every):
            label = painted_severity(f"{severity:<10}", severity, out)
            print(f"{label}{printable(text)}", file=out)
        # Flushed, so that later messages on stderr do not come before it.
        print(printable(summary_text(found, raw=self.raw, every=self.every)), file=out, flush=True)
