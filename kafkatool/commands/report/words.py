"""The first words of `report`: what is wrong in a sentence, and what to do next in another."""

from __future__ import annotations

from typing import NamedTuple

from kafkatool.commands.rows.findings import offsets_text
from kafkatool.commands.screen.values import human_size
from kafkatool.engine.advice.table import is_a_plan
from kafkatool.engine.batches.damage import FindingClass, Severity
from kafkatool.engine.report.gathering import Gathering
from kafkatool.engine.report.trouble import Trouble
from kafkatool.engine.verify.finding import Finding

_STATES = {
    Severity.LOSS: "records lost",
    Severity.NO_START: "a broker would not start",
    Severity.DEGRADED: "degraded",
}
_MOST_RANGES = 8


class ReportVerdict(NamedTuple):
    """`kind` is a severity, `unread` or `good`; `command` may be None, or an instruction in words."""

    kind: str
    state: str
    sentence: str
    advice: str
    command: str | None = None


def verdict(run: Gathering) -> ReportVerdict:
    summary, troubles = run.summary, run.damaged
    if not troubles:
        return _unharmed(run)
    worst = troubles[0]
    severity = worst.severity
    command = worst.worst.fix
    advice = f"Next, for {worst.name}:" if command else "No command mends that: see below."
    if command and is_a_plan(command):
        advice = f"Next, for {worst.name} (this shows a plan, and changes nothing without --apply):"
    if summary.unreadable_blocks:
        blocks = f"{counted(summary.unreadable_blocks, 'block')} of 4 KiB"
        advice = f"First image the disk: it does not give {blocks}. {advice}"
    sentence = f"{_sentence(severity, troubles, run)}{_unread(run)}"
    return ReportVerdict(severity.label, _STATES[severity], sentence, advice, command)


def _unharmed(run: Gathering) -> ReportVerdict:
    summary = run.summary
    read = f"{counted(summary.batches, 'batch', 'batches')} in {counted(summary.partitions, 'partition')}"
    whole = f"{read}, {human_size(summary.size)}"
    if summary.is_empty_sample:
        sentence = "The sample is empty: no log was read, and nothing can be said of them."
        return ReportVerdict("unread", "nothing was read", sentence, "Choose a larger share.")
    if summary.sample is not None:
        whole += f" of {human_size(summary.total_size)}, a sample"
    if summary.failures:
        inputs = counted(len(summary.failures), "input")
        sentence = f"{inputs} could not be read; in the rest ({whole}) nothing is wrong."
        return ReportVerdict(
            "unread", "not all was read", sentence, "Read it as a user who may, then report again."
        )
    if summary.is_of_nothing:
        sentence = "There was no batch to check: nothing can be said of what was named."
        return ReportVerdict("unread", "nothing was read", sentence, "Look whether this is the right place.")
    if summary.side_files and not summary.batches:
        sentence = f"Nothing is wrong in {counted(summary.side_files, 'side file')}; no log was read."
        return ReportVerdict("good", "sound", sentence, "Nothing has to be done.")
    sentence = f"Nothing is wrong: {whole}, all of them whole and where they belong."
    return ReportVerdict("good", "sound", sentence, "Nothing has to be done.")


def _sentence(severity: Severity, troubles: list[Trouble], run: Gathering) -> str:
    of_it = [one for one in troubles if one.severity is severity]
    worst = of_it[0]
    hit = sum(one.map is not None for one in of_it)
    where = (
        f"{hit} of {counted(run.summary.partitions, 'partition')}" if hit else "files outside of partitions"
    )
    if severity is Severity.LOSS:
        lost = lost_ranges(worst)
        noun = "offset" if lost and lost.isdecimal() else "offsets"
        offsets = f": {worst.name}, {noun} {lost}" if lost else f": {worst.name}"
        more = f", and {len(of_it) - 1} more" if len(of_it) > 1 else ""
        return f"Records are lost or cannot be read in {where}{offsets}{more}."
    if severity is Severity.NO_START:
        why = f"{worst.name}: {worst.worst.damage.message}"
        return f"A broker would refuse to start, or drop a log, because of {why}."
    rest = f" and {counted(len(of_it) - 1, 'other')}" if len(of_it) > 1 else ""
    if worst.worst.damage.kind is FindingClass.OPEN_TRANSACTION:
        why = f"{worst.name}{rest}: {worst.worst.damage.message}"
        return f"No record is lost, but readers of committed records do not get on in {why}."
    what = "files that a broker has to rebuild, or stumbles over"
    return f"No record is lost, but not all is in order in {worst.name}{rest}: {what}."


def _unread(run: Gathering) -> str:
    failures = len(run.summary.failures)
    return f" {counted(failures, 'input')} could not be read." if failures else ""


def lost_ranges(trouble: Trouble) -> str | None:
    """Return the offsets at stake, at most a few ranges of them."""
    losses = [one for one in trouble.kept if one.damage.severity is Severity.LOSS]
    ranges = [_range(one) for one in losses[:_MOST_RANGES]]
    more = trouble.counts[Severity.LOSS] - len(ranges)
    return (", ".join(ranges) + (f" and {more} more" if more else "")) if ranges else None


def _range(finding: Finding) -> str:
    text = offsets_text(finding) or "unknown"
    return f"{text[:-1]} to the end" if text.endswith("-") else text


def finding_counts(trouble: Trouble) -> str:
    return ", ".join(
        f"{trouble.counts[severity]} {severity.label}"
        for severity in reversed(Severity)
        if trouble.counts[severity]
    )


def counted(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
