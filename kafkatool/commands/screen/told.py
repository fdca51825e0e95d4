"""What a run of the engine says on its way, said on stderr."""

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
    """Say what a run says, when it says it, and yield what is left: its results.

    However that ends, the run has then ended, too, and has cleared away what it had made to work with.
    """
    with closing(run):
        for event in run:
            if isinstance(event, Said | SeverityMet):
                say(event, talk, outcome)
            else:
                yield event


def say(event: Said | SeverityMet, talk: Talk, outcome: RunOutcome) -> None:
    """Say one thing, and keep what it means for how the run ends."""
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
