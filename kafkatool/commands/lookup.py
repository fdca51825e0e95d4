"""`kafkatool lookup`: where an offset or a time is, and the way a broker finds it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.options import (
    CacheOpt,
    DebugOpt,
    FilesFromOpt,
    FormatOpt,
    MaxRateOpt,
    NoProgressOpt,
    NulOpt,
    PathsArg,
    QuietOpt,
    RawOpt,
    VerboseOpt,
    epilog,
    guest,
    talk,
)
from kafkatool.commands.render import Column, Format, Look, Row, rows
from kafkatool.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from kafkatool.engine.locate import Search, Step
    from kafkatool.engine.logdir import LogDir, Partition
    from kafkatool.engine.paths import Target
    from kafkatool.engine.source import Guest

EPILOG = epilog(
    {
        "kafkatool lookup --offset 1234567 /var/lib/kafka/data/orders-0": "the batch that holds an offset",
        "kafkatool lookup --time 2026-01-02T03:04:05Z orders-0": "the first record at or after a time",
        "kafkatool lookup --time now-2h --explain orders-0": "the same, with every step of the search",
        "kafkatool lookup --time now-1d --format ndjson /var/lib/kafka/data": "for every partition of a disk",
    }
)

COLUMNS = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", Look.number),
    Column("offset", "OFFSET", Look.number),
    Column("timestamp_ms", "TIME", Look.time),
    Column("segment", "SEGMENT", Look.number),
    Column("position", "POSITION", Look.number),
    Column("base_offset", "BASE", Look.number),
    Column("last_offset", "LAST", Look.number),
)
LOOKUP_KEYS = (
    *("topic", "partition", "directory", "segment", "position", "base_offset", "last_offset", "offset"),
    "timestamp_ms",
)
STEP_KEYS = ("topic", "partition", "directory", "action", "file", "result", "slots", "visited", "bytes_read")

_STRIP = 64


def lookup(
    paths: PathsArg = None,
    offset: Annotated[
        int | None, typer.Option("--offset", metavar="N", show_default=False, help="Find this offset.")
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            "--time",
            metavar="TIME",
            show_default=False,
            help="Find the first record at or after: epoch ms, @EPOCH_MS, ISO 8601, now-2h.",
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show every step, and what reading everything would say.")
    ] = False,
    fmt: FormatOpt = Format.table,
    raw: RawOpt = False,
    files_from: FilesFromOpt = None,
    nul: NulOpt = False,
    max_rate: MaxRateOpt = None,
    cache: CacheOpt = None,
    quiet: QuietOpt = False,
    verbose: VerboseOpt = False,
    no_progress: NoProgressOpt = False,
    debug: DebugOpt = False,
) -> None:
    """Find an offset or a time in a partition as a broker does, through its indexes.

    The answer is the batch that a fetch begins with and the first record that was meant. A broker answers a
    time with the first match in the first segment whose greatest timestamp reaches it; timestamps out of
    order can hide earlier ones from it, which --explain shows.
    """
    from kafkatool.engine.paths import expand

    if (offset is None) == (time is None):
        raise UsageError("lookup needs one of --offset and --time")
    if explain and fmt is Format.csv:
        raise UsageError("--explain has rows of two kinds, csv holds one: choose table or ndjson")
    speak = talk(quiet, verbose, no_progress)
    expansion = expand(paths or [], files_from=files_from, nul=nul, allow_stdin=False)
    for problem in expansion.problems:
        speak.warn(problem)
    target_ms = _target_ms(time)
    found = 0
    with rows(fmt, COLUMNS, raw=raw, sample=1 if explain else 500) as writer:
        for partition, search in _searches(expansion.targets, guest(cache, max_rate)):
            answer = _answer(partition, search, offset, target_ms)
            if explain:
                search.whole_walk(offset=offset, time_ms=target_ms)
                _show_steps(partition, search, fmt, writer.write)
            if answer is not None:
                writer.write(answer)
                found += 1
    if not found:
        speak.warn(f"nothing at or after {offset if time is None else time}")
        raise typer.Exit(ExitCode.USAGE)
    raise typer.Exit(ExitCode.FAILED if expansion.problems else ExitCode.OK)


def _target_ms(time: str | None) -> int | None:
    if time is None:
        return None
    from time import time_ns

    from kafkatool.commands.arguments import parse_time

    return parse_time(time, time_ns() // 1_000_000)


def _searches(targets: list[Target], how: Guest) -> Iterator[tuple[Partition, Search]]:
    """One search for every partition; a log named by itself is searched alone."""
    from kafkatool.engine.locate import search_in
    from kafkatool.engine.logdir import read_files, read_log_dir, read_partition
    from kafkatool.engine.paths import FileTarget, LogDirTarget, PartitionTarget

    for target in targets:
        match target:
            case LogDirTarget(path):
                log_dir = read_log_dir(path, how)
                for partition in log_dir.partitions:
                    yield partition, search_in(partition, how, _log_start(log_dir, partition))
            case PartitionTarget(path):
                partition = read_partition(path, [], how)
                yield partition, search_in(partition, how)
            case FileTarget(path):
                for partition in read_files([path], []):
                    yield partition, search_in(partition, how)


def _log_start(log_dir: LogDir, partition: Partition) -> int | None:
    if partition.topic is None or partition.partition is None:
        return None
    return log_dir.log_starts.get((partition.topic, partition.partition))


def _answer(partition: Partition, search: Search, offset: int | None, target_ms: int | None) -> Row | None:
    if offset is not None:
        found = search.offset(offset)
    else:
        assert target_ms is not None
        found = search.time(target_ms)
    if found is None:
        return None
    facts = asdict(found)
    return {"kind": "lookup", **_whose(partition), **{key: facts[key] for key in LOOKUP_KEYS[3:]}}


def _whose(partition: Partition) -> dict[str, object]:
    return {"topic": partition.topic, "partition": partition.partition, "directory": partition.path}


def _show_steps(partition: Partition, search: Search, fmt: Format, write: Callable[[Row], None]) -> None:
    if fmt is Format.ndjson:
        for step in search.steps:
            write({"kind": "lookup_step", **_whose(partition), **asdict(step), "action": str(step.action)})
        return
    for number, step in enumerate(search.steps, 1):
        print(f"{number:>2}. {_sentence(step)}")
        if step.visited and sys.stdout.isatty():
            print(f"    {_drawn(step)}")


def _sentence(step: Step) -> str:
    text = f"{step.action.replace('_', ' ')}: {step.file}: {step.result}"
    if step.slots is not None:
        slots = " ".join(map(str, step.visited)) or "none"
        text += f" ({step.slots} entries, slots looked at: {slots})"
    if step.bytes_read is not None:
        text += f" ({step.bytes_read} bytes read)"
    return text


def _drawn(step: Step) -> str:
    """The index as a strip, the slots in the order in which they were looked at."""
    strip = ["·"] * _STRIP
    for number, slot in enumerate(step.visited, 1):
        strip[slot * _STRIP // max(1, step.slots or 1)] = str(number % 10)
    return "[" + "".join(strip) + "]"
