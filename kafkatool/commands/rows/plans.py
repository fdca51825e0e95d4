"""Plans as rows and sentences, and the last stage that all plan commands share: show, apply, undo."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkatool.commands.rows.row_table import RowTable
from kafkatool.commands.screen.table import Rows, rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import Format, Row, human_size, iso_time
from kafkatool.engine.advice.table import Advice
from kafkatool.engine.batches.row_fields import FILE, REPLICAS, TOPIC, flag, int64, size, text, word
from kafkatool.errors import UsageError
from kafkatool.format.names import parse_partition_directory

if TYPE_CHECKING:
    from kafkatool.engine.plan.journal import Journal
    from kafkatool.engine.plan.steps import Applying, Plan, Step

STEPS = RowTable(
    "step",
    "rebuild-index",
    "One change of one file, planned or, with --apply, made. Damage in a log is told as in dump-log.",
    *TOPIC,
    FILE._replace(get="path"),
    word("action", "write, remove, rename, purge, rmdir; undo or remove with --undo"),
    text("target", "the new name, for rename, or for what is removed to a place of its own"),
    text("why", "the reason, in words"),
    size("size_before", "bytes of the file as it is; null where there is none"),
    size(
        "size_after",
        "bytes of what is written; null for remove and rename",
        lambda step: None if step.content is None else step.size,
    ),
    int64("entries", "entries of the index, or producers of the snapshot, that is written"),
    int64("only_there", "entries of the old file that the log does not bear out"),
    int64("only_here", "entries that the old file lacks"),
)
STEP_COLUMNS = STEPS.columns(
    partition_name="PARTITION",
    file_name="FILE",
    action="ACTION",
    size_before="SIZE",
    size_after="NEW SIZE",
    only_there="WRONG",
    only_here="MISSING",
    why="WHY",
)
RECOVERIES = RowTable(
    "recovery",
    "recover",
    "One thing that a broker would do at start-up after an unclean shutdown.",
    text("directory", "the partition's directory, or the log directory"),
    *TOPIC,
    int64("segment", "base offset of the segment; null where it is about none"),
    word(
        "what",
        "leftover (a file that was left behind is resolved), scan, cut, trim (of zeros that "
        "were reserved, or never written), delete, rebuild, split; unreadable (a batch of unknown magic, "
        "which brokers keep and no consumer reads), misnamed (a log that no broker opens by this name); "
        "refuse (the broker does not start), offline (it leaves the log directory out), stray (it sets "
        "the partition aside), promote (a -future copy takes its place), empty (such a copy loses all); "
        "salvage and unprovable with --keep-after-damage; mend (a flipped bit is flipped back, so that "
        "nothing is lost) with --mend-bits",
    ),
    int64("position", "byte where the log is cut, or the unreadable or mended batch; for a scan its size"),
    int64("first_offset", "first offset at stake, or of the batch that is mended"),
    int64(
        "last_offset",
        "last offset of a good batch that is lost, or of the batch that is mended; null where there is none",
    ),
    text("message", "the same in a sentence"),
    *REPLICAS,
)
PLANS = RowTable(
    "plan",
    "rebuild-index",
    "All steps for one log directory. Comes behind them.",
    text("command", "the command whose plan it is"),
    text("log_dir", "the log directory"),
    int64("steps", "number of steps", lambda plan: len(plan.steps)),
    size("bytes_needed", "bytes that are written beside the old files"),
    size("bytes_free", "bytes that are free on that volume"),
    flag("is_applied", "whether it was done"),
    text("journal", "path of the journal for --undo; null where nothing was done"),
)


def step_row(step: Step, size_before: int | None, counts: tuple[int, int, int] | None = None) -> Row:
    """Return the row of a step; counts: entries of the new index, those only in the old, only in the new."""
    counted = dict(zip(("entries", "only_there", "only_here"), counts or (None, None, None), strict=True))
    return STEPS.row(step, **topic_in(os.path.dirname(step.path)), size_before=size_before, **counted)


def topic_in(directory: str) -> Row:
    """Return the topic and the partition in the name of a directory, if it has any."""
    named = parse_partition_directory(os.path.basename(os.path.normpath(directory)))
    return {"topic": named.topic if named else None, "partition": named.partition if named else None}


def write_row(out: Rows, row: Row, fmt: Format) -> None:
    """Write a row in its format; a table has short names for partition and file."""
    if fmt is not Format.ndjson:
        path = str(row["file"])
        name = os.path.basename(path)
        if row.get("target"):
            directory, new_name = os.path.split(str(row["target"]))
            name = f"{name} -> {new_name if new_name != name else directory + os.sep}"
        row = {**row, "partition_name": os.path.basename(os.path.dirname(path)), "file_name": name}
    out.write(row)


def plan_row(plan: Plan, how: Applying, journal: str | None) -> Row:
    """Return the whole plan as one row, with what it needs and what was done."""
    from kafkatool.engine.files.disk import Disk
    from kafkatool.engine.plan.steps import rooms

    room = rooms(plan, Disk(), how.backup_dir)[0]
    given = {"bytes_needed": room.needed, "bytes_free": room.free, "journal": journal}
    return PLANS.row(plan, **given, is_applied=journal is not None)


def show_plan(plan: Plan, out: Rows, fmt: Format) -> None:
    """Write every step of a plan, with the current size of its file."""
    for step in plan.steps:
        size = os.path.getsize(step.path) if os.path.lexists(step.path) else None
        write_row(out, step_row(step, size), fmt)


def conclude(
    plan: Plan,
    how: Applying,
    speak: Talk,
    out: Rows,
    fmt: Format,
    *,
    do_apply: bool,
    warns_of_unmarking: bool = True,
) -> None:
    """Apply a plan if requested, and say what was done or what would be needed."""
    from kafkatool.engine.plan.applying import disk_for
    from kafkatool.engine.plan.steps import refuse_if_unsafe

    journal = None
    row = plan_row(plan, how, None)
    if plan.steps and warns_of_unmarking:
        _warn_of_unmarking(plan, speak)
    if do_apply and not plan.steps:  # a script may go on with changes of its own
        refuse_if_unsafe(plan, disk_for(plan, how), how)
    elif do_apply:
        _say_whose_ids(plan.log_dir, speak)
        journal = _carry_out(plan, how, speak)
    if fmt is Format.ndjson:
        out.write({**row, "is_applied": journal is not None, "journal": journal})
    elif not plan.steps:
        speak.note(f"{plan.log_dir}: nothing to do")
    else:
        speak.note(_sentence(plan, row, journal))


def _carry_out(plan: Plan, how: Applying, speak: Talk) -> str:
    from kafkatool.commands.screen.stopping import Stopping
    from kafkatool.engine.plan.applying import Stopped, apply, disk_for, way_back

    try:
        with (
            Stopping(speak) as stop,
            speak.progress("writing", sum(step.size for step in plan.steps)) as advance,
        ):
            journal = apply(plan, disk_for(plan, how), how, advance, stop)
    except KeyboardInterrupt:
        speak.warn(f"{plan.log_dir}: interrupted; nothing was changed")
        raise
    if stop.is_wanted():
        back = way_back(plan, journal)
        raise Stopped(f"{plan.log_dir}: interrupted when all was applied; {back}")
    return journal


def _say_whose_ids(log_dir: str, speak: Talk) -> None:
    from kafkatool.engine.files.owners import stand_in_for

    if (owner := stand_in_for(log_dir)) is not None:
        speak.note(f"{log_dir}: acting as its owner, user {owner.uid}, group {owner.gid}")


def _warn_of_unmarking(plan: Plan, speak: Talk) -> None:
    """Warn of partitions that depend on this broker alone, before its clean shutdown mark is removed."""
    from kafkatool.engine.files.source import Guest
    from kafkatool.engine.repair.unmarking import judge_unmarking

    judged = judge_unmarking(plan.log_dir, Guest())
    for objection in judged.objections:
        speak.warn(
            f"{objection.sentence} by the metadata of {iso_time(judged.metadata_ms)}; the mark of a clean "
            "shutdown, by which the cluster trusts this broker, goes"
        )


def _sentence(plan: Plan, row: Mapping[str, object], journal: str | None) -> str:
    from kafkatool.engine.plan.applying import way_back

    count = f"{len(plan.steps)} step{'s' if len(plan.steps) != 1 else ''}"
    if journal is not None:
        return f"{plan.log_dir}: {count} applied; {way_back(plan, journal)}"
    needed, free = (human_size(int(str(row[key]))) for key in ("bytes_needed", "bytes_free"))
    return (
        f"{plan.log_dir}: {count}, {needed} needed, {free} free; nothing was changed; --apply carries it out"
    )


@dataclass(frozen=True, slots=True)
class UndoRequest:
    """Which journal to undo, for which command, and which other directories it may change."""

    journal: str
    command: str
    outside: Sequence[str]
    offline: bool
    is_applied: bool


def undo_journal(request: UndoRequest, speak: Talk, fmt: Format) -> None:
    """Show what undoing a journal would do; with --apply, do it."""
    from kafkatool.engine.plan.journal import read_journal
    from kafkatool.engine.plan.steps import remove
    from kafkatool.engine.plan.undo import disk_for_undo, plan_undo

    journal = read_journal(request.journal, request.outside)
    if journal.command != request.command:
        raise UsageError(
            f"{request.journal}: was written by {journal.command}: "
            f"{Advice.SHOW_UNDO(command=journal.command, journal=request.journal)}"
        )
    if request.is_applied:
        _say_whose_ids(journal.root, speak)
    way = plan_undo(journal, disk_for_undo(journal))
    with rows(fmt, STEP_COLUMNS) as out:
        for back in way.all:
            size = os.path.getsize(back.path) if os.path.isfile(back.path) else None
            action = "remove" if back.is_removal else "undo"
            write_row(out, {**step_row(remove(back.path, back.what), size), "action": action}, fmt)
    if request.is_applied:
        speak.note(f"{request.journal}: {_undo(journal, request, speak)} changes undone")
    elif way.all:
        speak.note(f"{request.journal}: nothing was changed; --apply carries it out")
    else:
        was = "was undone already" if journal.is_undone else "nothing to undo"
        speak.note(f"{request.journal}: {was}")


def _undo(journal: Journal, request: UndoRequest, speak: Talk) -> int:
    from kafkatool.commands.screen.stopping import Stopping
    from kafkatool.engine.plan.applying import Stopped
    from kafkatool.engine.plan.undo import disk_for_undo, undo

    try:
        with Stopping(speak) as stop:
            files = disk_for_undo(journal)
            done = undo(journal, files, offline=request.offline, now_ms=now_ms(), stop=stop)
    except KeyboardInterrupt:
        speak.warn(f"{request.journal}: interrupted; nothing was changed")
        raise
    if stop.is_wanted():
        raise Stopped(f"{request.journal}: interrupted when all was undone")
    return done


def now_ms() -> int:
    return time.time_ns() // 1_000_000
