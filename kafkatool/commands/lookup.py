"""`kafkatool lookup`: where an offset or a time is, and how a broker finds it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.options import (
    CommonOptions,
    FailOnOpt,
    FileOptions,
    FormatOpt,
    RawOpt,
    epilog,
    severity,
)
from kafkatool.commands.rows.lookup import LOOKUP_COLUMNS, LOOKUP_STEPS, LOOKUPS
from kafkatool.commands.screen.table import rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import Format, Row, printable
from kafkatool.engine.advice.table import Advice
from kafkatool.engine.batches.row_fields import PARTITION, values
from kafkatool.errors import ExitCode, UsageError
from kafkatool.format.java_text import LONG_MAX

if TYPE_CHECKING:
    from kafkatool.engine.batches.damage import Damage, Severity
    from kafkatool.engine.directory.locate import Search, SearchStep
    from kafkatool.engine.directory.log_dir import ListingProblem, Partition
    from kafkatool.engine.directory.targets import FileTarget, Target
    from kafkatool.engine.files.source import Guest

EPILOG = epilog(
    {
        "kafkatool lookup --offset 1234567 /var/lib/kafka/data/orders-0": "the batch that holds an offset",
        "kafkatool lookup --time 2026-01-02T03:04:05Z orders-0": "the first record at or after a time",
        "kafkatool lookup --time now-2h --explain orders-0": "the same, with every step of the search",
        "kafkatool lookup --time now-1d --format ndjson /var/lib/kafka/data": "for every partition of a disk",
    },
    4,
)

_STRIP = 64


def lookup(
    where: FileOptions,
    *,
    offset: Annotated[
        int | None,
        typer.Option("--offset", metavar="N", min=0, max=LONG_MAX, help="Find this offset."),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            "--time",
            metavar="TIME",
            help="Find the first record at or after this time: epoch ms, @EPOCH_MS, ISO 8601, now-2h.",
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show every step, and what a full scan would find.")
    ] = False,
    fmt: FormatOpt = Format.table,
    raw: RawOpt = False,
    fail_on: FailOnOpt = "degraded",
    common: CommonOptions,
) -> None:
    """Find an offset or a time in a partition as a broker does, through its indexes.

    The answer is the batch that a fetch would start with, and the first record asked for. For a time a broker
    takes the first match in the first segment whose greatest timestamp reaches it; timestamps out of order
    can hide earlier matches from it, which --explain shows. Damage on the way is reported: a broker checks no
    checksums here, and does not find what follows a broken length.
    """
    if (offset is None) == (time is None):
        raise UsageError("lookup needs one of --offset and --time")
    if explain and fmt is Format.csv:
        raise UsageError("--explain has rows of two kinds, csv holds one: choose table or ndjson")
    from kafkatool.engine.directory.named_file import SEGMENT_FILES

    speak = common.talk()
    expansion = where.expand(readable=SEGMENT_FILES)
    problems: list[ListingProblem] = []
    target_ms = _target_ms(time)
    met = _Met(speak, common.guest(), severity(fail_on))
    with rows(fmt, LOOKUP_COLUMNS, raw=raw, sample=1 if explain else 500) as writer:
        for partition, search in _searches(expansion.targets, met.guest, problems):
            steps: list[SearchStep] = []
            if explain:
                search.observe = steps.append
            answer = _answer(partition, search, offset, target_ms)
            met.look_at(search, answer, offset)
            if explain:
                search.whole_walk(offset=offset, time_ms=target_ms)
                _show_steps(partition, steps, fmt, writer.write)
            if answer is not None:
                writer.write(answer)
    if not met.searches and not problems:
        raise UsageError("no log in there: name a log, a partition or a log directory")
    failures = [*expansion.problems, *(f"{one.path}: {one.message}" for one in problems if not one.vanished)]
    for failure in failures:
        speak.warn(failure)
    if not met.answers and not met.below:
        speak.warn(f"nothing at or after {offset if time is None else time}")
    if failures:
        raise typer.Exit(ExitCode.FAILED)
    raise typer.Exit(met.exit_code)


class _Met:
    """What searches met: answers, damage, offsets that are no longer there."""

    def __init__(self, speak: Talk, guest: Guest, fail_on: Severity) -> None:
        self.guest = guest
        self._fail_on = fail_on
        self.searches = 0
        self.answers = 0
        self.below = 0
        self._is_damaged = False
        self._talk = speak

    def look_at(self, search: Search, answer: Row | None, offset: int | None) -> None:
        self.searches += 1
        self.answers += answer is not None
        if offset is not None and offset < search.log_start:
            self.below += 1
            place = os.path.dirname(search.segments[0].files[0].path) if search.segments else "-"
            self._talk.warn(
                f"{place}: offset {offset} lies below the start of the log, {search.log_start}: "
                "a broker answers OFFSET_OUT_OF_RANGE"
            )
        for path, damage in search.damage:
            self._tell(path, damage)

    def _tell(self, path: str, damage: Damage) -> None:
        from kafkatool.commands.rows.batches import LogPlace, damage_sentence
        from kafkatool.engine.batches.damage import Severity

        sentence = damage_sentence(LogPlace.of(path, self.guest), damage)
        self._is_damaged |= damage.severity >= self._fail_on
        if damage.severity is Severity.NOTE:
            self._talk.detail(sentence)
            return
        self._talk.warn(f"{sentence}; next: {Advice.VERIFY(where=path)}")

    @property
    def exit_code(self) -> ExitCode:
        if self._is_damaged:
            return ExitCode.FOUND
        return ExitCode.OK if self.answers else ExitCode.USAGE


def _target_ms(time: str | None) -> int | None:
    if time is None:
        return None
    from time import time_ns

    from kafkatool.commands.line.arguments import parse_time

    return parse_time(time, time_ns() // 1_000_000)


def _searches(
    targets: list[Target], how: Guest, problems: list[ListingProblem]
) -> Iterator[tuple[Partition, Search]]:
    """Yield one search per partition; a log that was named itself is searched alone."""
    from kafkatool.engine.directory.locate import search_in
    from kafkatool.engine.directory.log_dir import with_logs
    from kafkatool.engine.directory.selection import Selection
    from kafkatool.engine.directory.targets import FileTarget

    selection, seen = Selection(targets, how), set[FileTarget]()
    problems += [problem for log_dir in selection.log_dirs for problem in log_dir.problems]
    for target in targets:
        for place in selection.places_of(target, problems, by_name=True):
            log_dir = place.log_dir or selection.log_dir_of(target.path)
            log_start = log_dir.log_starts.get(place.partition.key)
            yield place.partition, search_in(place.partition, how, log_start)
        if isinstance(target, FileTarget):
            file = with_logs([target])[-1]  # a named index stands for its log
            if file not in seen:
                yield from _search_alone(file, how, problems)
            seen.add(file)


def _search_alone(
    file: FileTarget, how: Guest, problems: list[ListingProblem]
) -> Iterator[tuple[Partition, Search]]:
    from kafkatool.engine.directory.locate import search_in
    from kafkatool.engine.directory.log_dir import read_files

    for partition in read_files([file], problems):
        if not partition.live_segments:
            raise UsageError(f"{file.path}: no log in use, and none beside it: name a log or its directory")
        yield partition, search_in(partition, how)


def _answer(partition: Partition, search: Search, offset: int | None, target_ms: int | None) -> Row | None:
    if offset is not None:
        found = search.offset(offset)
    else:
        assert target_ms is not None
        found = search.time(target_ms)
    if found is None:
        return None
    return LOOKUPS.row(found, **values(PARTITION, partition))


def _show_steps(
    partition: Partition, steps: list[SearchStep], fmt: Format, write: Callable[[Row], None]
) -> None:
    if fmt is Format.ndjson:
        for step in steps:
            write(LOOKUP_STEPS.row(step, **values(PARTITION, partition)))
        return
    for number, step in enumerate(steps, 1):
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
