"""The output of `lookup`: answers, the steps that led to them, damage on the way."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from kafkatool.commands.rows.batches import LogPlace, damage_sentence
from kafkatool.commands.rows.lookup import LOOKUP_COLUMNS, LOOKUP_STEPS, LOOKUPS
from kafkatool.commands.screen.outcome import RunOutcome
from kafkatool.commands.screen.table import Rows, rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import Format, printable
from kafkatool.engine.advice.table import Advice
from kafkatool.engine.batches.damage import Damage, Severity
from kafkatool.engine.batches.row_fields import PARTITION, values
from kafkatool.engine.directory.locate import SearchStep
from kafkatool.engine.directory.lookups import Lookup
from kafkatool.engine.files.source import Guest

_STRIP = 64


@dataclass(slots=True)
class LookupTelling:
    """Rows and steps go to stdout, sentences to stderr; counts what was met."""

    talk: Talk
    outcome: RunOutcome
    guest: Guest
    fmt: Format
    raw: bool
    searches: int = 0
    answers: int = 0
    below: int = 0

    def tell(self, run: Iterator[Lookup], *, explain: bool) -> None:
        """Show the answers of all partitions."""
        with rows(self.fmt, LOOKUP_COLUMNS, raw=self.raw, sample=1 if explain else 500) as out:
            for one in run:
                self._met(one)
                if explain:
                    self._explain(one, out)
                if one.found is not None:
                    out.write(LOOKUPS.row(one.found, **values(PARTITION, one.partition)))

    def _met(self, one: Lookup) -> None:
        search = one.search
        self.searches += 1
        self.answers += one.found is not None
        self.below += one.is_below
        if one.is_below:
            place = os.path.dirname(search.segments[0].files[0].path) if search.segments else "-"
            self.talk.warn(
                f"{place}: offset {one.request.offset} lies below the start of the log, {search.log_start}: "
                "a broker answers OFFSET_OUT_OF_RANGE"
            )
        for path, damage in search.damage:
            self._damage(path, damage)

    def _damage(self, path: str, damage: Damage) -> None:
        sentence = damage_sentence(LogPlace.of(path, self.guest), damage)
        self.outcome.met(damage)
        if damage.severity is Severity.NOTE:
            self.talk.detail(sentence)
            return
        self.talk.warn(f"{sentence}; next: {Advice.VERIFY(where=path)}")

    def _explain(self, one: Lookup, out: Rows) -> None:
        for number, step in enumerate(one.steps(), 1):
            if self.fmt is Format.ndjson:
                out.write(LOOKUP_STEPS.row(step, **values(PARTITION, one.partition)))
                continue
            print(printable(f"{number:>2}. {_sentence(step)}"))
            if step.visited and sys.stdout.isatty():
                print(f"    {_drawn(step)}")


def _sentence(step: SearchStep) -> str:
    text = f"{step.action.replace('_', ' ')}: {step.file}: {step.result}"
    if step.slots is not None:
        slots = " ".join(map(str, step.visited)) or "none"
        text += f" ({step.slots} entries, slots looked at: {slots})"
    if step.bytes_read is not None:
        text += f" ({step.bytes_read} bytes read)"
    return text


def _drawn(step: SearchStep) -> str:
    """Draw the index as a strip: slots are numbered in the order in which they were examined."""
    strip = ["·"] * _STRIP
    for number, slot in enumerate(step.visited, 1):
        strip[slot * _STRIP // max(1, step.slots or 1)] = str(number % 10)
    return "[" + "".join(strip) + "]"
