"""Print on stderr what an engine run reports on its way."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import TypeVar

from kafkatool.commands.screen.outcome import RunOutcome
from kafkatool.commands.screen.talk import Talk
from kafkatool.engine.batches.damage import SeverityMet
from kafkatool.engine.jobs.events import Caution, Detail, Failure, Note, Said

_Other = TypeVar("_Other")
Run = Generator[Said | SeverityMet | _Other, None, None]


def told(run: Run[_Other], talk: Talk, outcome: RunOutcome) -> Iterator[_Other]:
    """Print what a run reports, as it reports it, and yield the rest: its results.

    However this ends, the run is closed, too, and has removed its temporary files.
    """
    with closing(run):
        for event in run:
            if isinstance(event, Said | SeverityMet):
                say(event, talk, outcome)
            else:
                yield event


def say(event: Said | SeverityMet, talk: Talk, outcome: RunOutcome) -> None:
    """Print one event, and record what it means for the exit code."""
    match event:
        case Detail(message):
            talk.detail(message)
        case Note(message):
            talk.note(message)
        case Caution(message):
            talk.warn(message)
        case Failure(message):
            outcome.fail(talk, [message])
        case SeverityMet(severity):
            outcome.met_severity(severity)
