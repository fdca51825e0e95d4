"""`kafkatool cache-map`: what of the logs is in the page cache, and what that means to their readers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkatool.commands.options import CommonOptions, FileOptions, PathOptions, RawOpt, epilog
from kafkatool.commands.plan_options import ApplyOpt
from kafkatool.commands.record_options import FromOpt, LimitOpt, ToOpt, parse_range
from kafkatool.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from kafkatool.commands.cache_map_rows import View
    from kafkatool.commands.render import Talk
    from kafkatool.engine.batches.seek import Range
    from kafkatool.engine.cache.planning import Action
    from kafkatool.engine.cache.residents import Notes
    from kafkatool.engine.directory.targets import Target
    from kafkatool.engine.files.source import Guest

EPILOG = epilog(
    {
        "kafkatool cache-map /var/lib/kafka/data": "how much of each partition is in memory",
        "kafkatool cache-map --segments /var/lib/kafka/data/orders-0": "each segment as a strip",
        "kafkatool cache-map --groups /var/lib/kafka/data": "which consumer groups would read from the disk",
        "kafkatool cache-map --watch /var/lib/kafka/data/orders-0": "look again every two seconds",
        "kafkatool cache-map --format html DIR > cache.html": "one page, to look at or to send",
        "kafkatool cache-map --warm --last 2G --apply DIR/orders-0": "read the last 2 GiB into memory",
        "kafkatool cache-map --evict --to now-6h --apply DIR/orders-0": "forget what is older than six hours",
    },
    5,
)


class MapFormat(StrEnum):
    """How results are written."""

    table = "table"
    ndjson = "ndjson"
    svg = "svg"
    html = "html"


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """What a row is about."""

    topics: Annotated[bool, typer.Option("--topics", help="One row a topic.")] = False
    partitions: Annotated[bool, typer.Option("--partitions", help="One row a partition.")] = False
    segments: Annotated[bool, typer.Option("--segments", help="One row a segment, its indexes included.")] = (
        False
    )
    files: Annotated[bool, typer.Option("--files", help="One row a file.")] = False
    pages: Annotated[
        bool, typer.Option("--pages", help="NDJSON: every file with the byte ranges of it that are resident.")
    ] = False

    def view(self, targets: list[Target]) -> View:
        """By default partitions of a log directory, segments of a partition, and other files as files."""
        from kafkatool.commands.cache_map_rows import View
        from kafkatool.engine.directory.named_file import SEGMENT_FILES
        from kafkatool.engine.directory.targets import FileTarget, LogDirTarget

        chosen = [view for view in View if getattr(self, view)]
        if len(chosen) > 1:
            raise UsageError(f"--{chosen[0]} and --{chosen[1]} exclude each other")
        if chosen:
            return chosen[0]
        if any(isinstance(one, FileTarget) and one.kind not in SEGMENT_FILES for one in targets):
            return View.files
        has_log_dirs = any(isinstance(target, LogDirTarget) for target in targets)
        return View.partitions if has_log_dirs else View.segments

    @property
    def is_chosen(self) -> bool:
        return self.topics or self.partitions or self.segments or self.files


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """Bringing in and forgetting."""

    warm: Annotated[bool, typer.Option("--warm", help="Plan to read into memory what is not there.")] = False
    evict: Annotated[
        bool,
        typer.Option("--evict", help="Plan to forget pages; never of an active segment in use."),
    ] = False
    from_: FromOpt = None
    to: ToOpt = None
    last: Annotated[
        str | None,
        typer.Option(
            "--last", metavar="SIZE", show_default=False, help="Only the last so many bytes of each log: 2G."
        ),
    ] = None
    apply: ApplyOpt = False

    def action(self) -> Action | None:
        from kafkatool.engine.cache.planning import Action

        if self.warm and self.evict:
            raise UsageError("--warm and --evict exclude each other")
        if not (self.warm or self.evict):
            if self.apply or self.from_ or self.to or self.last:
                raise UsageError("--apply, --from, --to and --last belong to --warm or --evict")
            return None
        if self.last and (self.from_ or self.to):
            raise UsageError("--last excludes --from and --to")
        return Action.WARM if self.warm else Action.EVICT

    def range(self) -> Range:
        return parse_range(self.from_, self.to)

    def last_size(self) -> int | None:
        from kafkatool.commands.arguments import parse_size

        return None if self.last is None else parse_size(self.last)


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """Who reads there."""

    lag: Annotated[
        list[str] | None,
        typer.Option(
            "--lag",
            metavar="GROUP=OFFSET",
            show_default=False,
            help="Tell what a group that reads next at this offset would meet.",
        ),
    ] = None
    groups: Annotated[
        bool,
        typer.Option("--groups", help="The same for the groups in the __consumer_offsets beside."),
    ] = False


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """Looking more than once."""

    watch: Annotated[bool, typer.Option("--watch", help="Look again and again, until Ctrl-C.")] = False
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.1, help="Between two looks of --watch.")
    ] = 2.0
    rounds: Annotated[
        int | None,
        typer.Option("--rounds", metavar="N", min=1, show_default=False, help="End --watch after N looks."),
    ] = None


def cache_map(
    where: FileOptions,
    *,
    views: ViewOptions,
    pid: Annotated[
        int | None,
        typer.Option("--pid", metavar="PID", show_default=False, help="The files that this broker has open."),
    ] = None,
    readers: ReaderOptions,
    watching: WatchOptions,
    change: ChangeOptions,
    limit: LimitOpt = None,
    fmt: Annotated[MapFormat, typer.Option("--format", help="How results are written.")] = MapFormat.table,
    width: Annotated[
        int,
        typer.Option("--width", metavar="COLUMNS", min=0, help="Of the table; 0: the terminal's, or 80."),
    ] = 0,
    raw: RawOpt = False,
    common: CommonOptions,
) -> None:
    """Show which pages of logs and indexes are in the page cache: resident, dirty, or on the disk only.

    Asked of the kernel with mincore and cachestat: nothing is brought in by looking, and no time of access
    is changed. Who neither owns a file nor may write it is not told; then that is said, and nothing is made
    up. --warm and --evict are plans, carried out with --apply only: at most what memory has free is read,
    and of a live log the active segment is never evicted.
    """
    looking = _Looking(common.guest(), common.talk(), fmt, raw, limit, width)
    targets = _targets(where, pid, looking)
    looking.lags = _lags(readers.lag or [])
    looking.groups = readers.groups
    view = views.view(targets)
    action = change.action()
    if action is not None:
        looking.change(targets, action, change)
    elif watching.watch:
        looking.watch(targets, view, watching.interval, watching.rounds)
    elif fmt in (MapFormat.svg, MapFormat.html):
        looking.draw(targets)
    else:
        every_kind = fmt is MapFormat.ndjson and not views.is_chosen
        looking.show(targets, view, every_kind=every_kind, with_ranges=views.pages)
    raise typer.Exit(looking.exit_code())


def _targets(where: PathOptions, pid: int | None, looking: _Looking) -> list[Target]:
    from kafkatool.engine.directory.targets import FileTarget
    from kafkatool.format.kinds import ALL

    if pid is None:
        expansion = where.expand(readable=ALL)
        looking.failures += expansion.problems
        return expansion.targets
    from kafkatool.engine.files.open_files import open_kafka_files

    if where.paths or where.files_from:
        raise UsageError("--pid takes no PATH: the process says which files it has open")
    paths, deleted = open_kafka_files(pid)
    if deleted:
        looking.talk.note(f"{deleted} files of process {pid} are deleted and still open: they are left out")
    if not paths:
        raise UsageError(f"--pid {pid}: it has none of Kafka's files open")
    return [FileTarget(path) for path in paths]


def _lags(texts: list[str]) -> dict[str, int]:
    found = {}
    for text in texts:
        group, equals, offset = text.rpartition("=")
        if not equals or not offset.isdigit() or not group:
            raise UsageError(f"--lag {text!r}: say GROUP=OFFSET")
        found[group] = int(offset)
    return found


class _Looking:
    """One run of the command: how it reads and writes, and what went wrong."""

    def __init__(
        self, guest: Guest, talk: Talk, fmt: MapFormat, raw: bool, limit: int | None, width: int
    ) -> None:
        from kafkatool.engine.cache.residents import Notes

        self.guest, self.talk, self.fmt, self.raw, self.limit = guest, talk, fmt, raw, limit
        self.width = width or _terminal_width()
        self.lags: dict[str, int] = {}
        self.groups = False
        self.failures: list[str] = []
        self.refused = False
        self.notes: Notes = Notes()

    def exit_code(self) -> ExitCode:
        """Tell what could not be done, and the code for it."""
        vanished = self.notes.vanished
        if vanished:
            more = f" and {len(vanished) - 1} more" if len(vanished) > 1 else ""
            self.talk.note(f"{vanished[0]}{more}: vanished meanwhile")
        if self.notes.untold:
            from kafkatool.engine.files.residency import NOT_TOLD

            self.talk.warn(f"{self.notes.untold} files: {NOT_TOLD}; run as the broker's user, or root")
        for failure in [*self.failures, *self.notes.failures]:
            self.talk.warn(failure)
        if self.refused:
            return ExitCode.REFUSED
        return ExitCode.FAILED if self.failures or self.notes.failures or self.notes.untold else ExitCode.OK

    # --- tables and NDJSON ----------------------------------------------------------------------------

    def show(self, targets: list[Target], view: View, *, every_kind: bool, with_ranges: bool) -> None:
        from kafkatool.commands.cache_map_show import show

        show(self, targets, view, every_kind=every_kind, with_ranges=with_ranges)

    def watch(self, targets: list[Target], view: View, interval: float, rounds: int | None) -> None:
        from kafkatool.commands.cache_map_show import watch

        if self.fmt in (MapFormat.svg, MapFormat.html):
            raise UsageError("--watch writes tables or NDJSON")
        watch(self, targets, view, interval, rounds)

    def draw(self, targets: list[Target]) -> None:
        from kafkatool.commands.cache_map_picture import draw_html, draw_svg
        from kafkatool.commands.render import stdout
        from kafkatool.commands.terminal_text import guarded
        from kafkatool.engine.cache.residents import map_targets

        draw = draw_html if self.fmt is MapFormat.html else draw_svg
        found = islice(map_targets(targets, self.guest, self.notes), self.limit)
        guarded(stdout()).writelines(draw(found, self.guest))

    # --- warm and evict -------------------------------------------------------------------------------

    def change(self, targets: list[Target], action: Action, wanted: ChangeOptions) -> None:
        """Show the plan for every partition, or do it."""
        from kafkatool.commands.cache_map_rows import DONE_COLUMNS, PIECE_COLUMNS
        from kafkatool.commands.render import Format, rows

        if self.fmt not in (MapFormat.table, MapFormat.ndjson):
            raise UsageError("a plan is written as a table or NDJSON")
        fmt = Format.ndjson if self.fmt is MapFormat.ndjson else Format.table
        with rows(fmt, DONE_COLUMNS if wanted.apply else PIECE_COLUMNS, raw=self.raw) as out:
            for row in self._changes(targets, action, wanted):
                out.write(row)
        if not wanted.apply:
            self.talk.note("nothing is changed: --apply does it")

    def _changes(
        self, targets: list[Target], action: Action, wanted: ChangeOptions
    ) -> Iterator[dict[str, Any]]:
        from kafkatool.commands.cache_map_rows import piece_row
        from kafkatool.engine.cache import planning
        from kafkatool.engine.cache.residents import map_targets

        budget = planning.free_memory()
        within, last_size = wanted.range(), wanted.last_size()
        for mapped in map_targets(targets, self.guest, self.notes):
            meant = planning.bounds(mapped, within, last_size, self.guest)
            pieces = planning.plan(mapped, action, meant, budget)
            if action is planning.Action.WARM:
                budget -= sum(piece.size for piece in pieces)
            self._tell_refused(pieces, wanted.apply)
            if wanted.apply:
                for done in planning.apply(pieces, self.guest):
                    yield piece_row(done.piece, done)
            else:
                yield from map(piece_row, pieces)

    def _tell_refused(self, pieces: list[Any], is_applied: bool) -> None:
        for piece in pieces:
            if piece.why.startswith("active"):
                self.refused = self.refused or is_applied
                self.talk.warn(f"{piece.file}: {piece.why}")


def _terminal_width() -> int:
    import shutil

    return shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else 80
