"""`kafkatool ls`: what is in a log directory, how much of it, and where the space went."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkatool.commands.line.options import CommonOptions, FileOptions, FormatOpt, RawOpt, epilog
from kafkatool.commands.line.record_options import LimitOpt
from kafkatool.commands.screen.table import rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import Format
from kafkatool.errors import ExitCode, UsageError, unknown_word

if TYPE_CHECKING:
    from kafkatool.commands.rows.listing import ListedPlace, ListingView, LsRow
    from kafkatool.engine.directory.log_dir import ListingProblem, LogDir
    from kafkatool.engine.directory.targets import Target
    from kafkatool.engine.files.source import Guest

EPILOG = epilog(
    {
        "kafkatool ls /var/lib/kafka/data": "every partition, with offsets, times and sizes",
        "kafkatool ls --topics --sort size server.properties": "the topics of a broker, the largest first",
        "kafkatool ls --segments /var/lib/kafka/data/orders-0": "the segments of one partition",
        "kafkatool ls --space /var/lib/kafka/data": "where the space of the disk went",
        "kafkatool ls --format ndjson --state stray DIR | jq -r '.directory // empty'": (
            "partitions without an owner (stray)"
        ),
    }
)


class Sort(StrEnum):
    name = "name"
    size = "size"
    allocated = "allocated"
    time = "time"
    offset = "offset"


def ls(
    where: FileOptions,
    *,
    topics: Annotated[bool, typer.Option("--topics", help="One row per topic.")] = False,
    partitions: Annotated[
        bool, typer.Option("--partitions", help="One row per partition (default).")
    ] = False,
    segments: Annotated[bool, typer.Option("--segments", help="One row per segment.")] = False,
    files: Annotated[bool, typer.Option("--files", help="One row per file.")] = False,
    space: Annotated[
        bool, typer.Option("--space", help="Show where the space of the file systems went, inodes too.")
    ] = False,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            metavar="active|deleted|stray|future|metadata",
            help="Only partitions in this state; all by default.",
        ),
    ] = None,
    sort: Annotated[
        Sort, typer.Option("--sort", help="Sort order. size, allocated and time list the greatest first.")
    ] = Sort.name,
    reverse: Annotated[bool, typer.Option("--reverse", help="Reverse the order.")] = False,
    limit: LimitOpt = None,
    fmt: FormatOpt = Format.table,
    raw: RawOpt = False,
    common: CommonOptions,
) -> None:
    """List topics, partitions, segments and files with their offset and time ranges and sizes.

    SIZE is the length of the files, ALLOCATED what they take on the disk: preallocated indexes are sparse.
    Deleted, stray and future partitions and leftovers of the log cleaner are listed and counted like all
    others. Nothing is changed, and the page cache is left as it was.
    """
    from kafkatool.format.kinds import ALL

    expansion = where.expand(readable=ALL)
    view = _view(topics, partitions, segments, files, space, expansion.targets)
    listing = _Listing(common.guest(), common.talk())
    listing.read(expansion.targets, state or [])
    for problem in expansion.problems:
        listing.fail(problem)
    listing.show(view, fmt, raw, _order(sort, reverse), limit)
    raise typer.Exit(ExitCode.FAILED if listing.failures else ExitCode.OK)


def _view(
    topics: bool, partitions: bool, segments: bool, files: bool, space: bool, targets: list[Target]
) -> ListingView:
    from kafkatool.commands.rows.listing import ListingView
    from kafkatool.engine.directory.named_file import SEGMENT_FILES
    from kafkatool.engine.directory.targets import FileTarget

    chosen = [
        view
        for view, is_chosen in zip(ListingView, (topics, partitions, segments, files, space), strict=True)
        if is_chosen
    ]
    if len(chosen) > 1:
        raise UsageError(f"--{chosen[0]} and --{chosen[1]} exclude each other")
    if chosen:
        return chosen[0]
    loose = [target for target in targets if isinstance(target, FileTarget)]
    if not loose or len(loose) < len(targets):
        return ListingView.partitions
    return ListingView.segments if all(one.kind in SEGMENT_FILES for one in loose) else ListingView.files


def _order(sort: Sort, reverse: bool) -> Callable[[Iterable[LsRow]], Iterable[LsRow]]:
    """Return a function that sorts rows; by name they are sorted already."""
    if sort is Sort.name:
        return (lambda found: reversed(list(found))) if reverse else (lambda found: found)
    keys = {
        Sort.size: ("size", "log_size"),
        Sort.allocated: ("allocated",),
        Sort.time: ("max_timestamp_ms", "modified_ms"),
        Sort.offset: ("first_offset", "segment", "offset"),
    }[sort]
    descending = (sort is not Sort.offset) != reverse

    def value(row: LsRow) -> int:
        known = (row[key] for key in keys if row.get(key) is not None)
        return int(next(known, -1))

    return lambda found: sorted(found, key=value, reverse=descending)


class _Listing:
    """What was found, and what failed."""

    def __init__(self, how: Guest, speak: Talk) -> None:
        self._guest = how
        self._talk = speak
        self.failures = 0
        self.log_dirs: list[LogDir] = []
        self.places: list[ListedPlace] = []
        self._loose_files = True

    def fail(self, message: str) -> None:
        """Report something that could not be read; the command will exit with 3."""
        self.failures += 1
        self._talk.warn(message)

    def read(self, targets: list[Target], states: list[str]) -> None:
        """List everything named; keep the partitions in these states, or all."""
        from kafkatool.commands.rows.listing import ListedPlace
        from kafkatool.engine.directory.log_dir import PartitionState
        from kafkatool.engine.directory.selection import Selection
        from kafkatool.engine.directory.topic_names import restore_topic_names

        known = [str(state) for state in PartitionState]
        for state in states:
            if state not in known:
                raise unknown_word("--state", state, known)
        selection = Selection(targets, self._guest)
        self.log_dirs = selection.log_dirs
        restore_topic_names(self.log_dirs, self._guest)
        problems = [problem for log_dir in self.log_dirs for problem in log_dir.problems]
        for target in targets:
            found = selection.places_of(target, problems)
            places = (ListedPlace(one.partition, one.log_dir) for one in found)
            self.places += sorted(places, key=lambda place: place.order)
        self.places += [ListedPlace(one.partition, None) for one in selection.files(problems)]
        self._note(problems)
        if states:
            self._loose_files = False
            self.places = [place for place in self.places if place.partition.state in states]
            if not self.places:
                raise UsageError(f"no partition is {' or '.join(states)}")

    def _note(self, problems: list[ListingProblem]) -> None:
        for problem in problems:
            if problem.vanished:
                self._talk.detail(f"{problem.path}: vanished meanwhile")
            else:
                self.fail(f"{problem.path}: {problem.message}")

    def show(
        self,
        view: ListingView,
        fmt: Format,
        raw: bool,
        order: Callable[[Iterable[LsRow]], Iterable[LsRow]],
        limit: int | None,
    ) -> None:
        """Write the rows of a view, after the log directories and before the totals."""
        from kafkatool.commands.rows.listing import COLUMNS, ListingView, logdir_row, total_row

        is_space = view is ListingView.space
        with rows(fmt, COLUMNS[view], raw=raw) as out:
            if fmt is Format.ndjson:
                for log_dir in self.log_dirs:
                    out.write(logdir_row(log_dir))
            else:
                self._headings()
            found = self._space_rows(fmt) if is_space else islice(order(self._rows(view)), limit)
            for row in found:
                unread = row.pop("unread", 0)
                if unread:
                    self.failures += unread
                    self._talk.warn(str(row["problem"]))
                out.write(row)
            if not is_space and fmt is not Format.csv:
                total = total_row(self.places, self.log_dirs if self._loose_files else [])
                out.write(total if fmt is Format.ndjson else _as_last_line(total, view))

    def _rows(self, view: ListingView) -> Iterator[LsRow]:
        from kafkatool.commands.rows import listing as ls_rows
        from kafkatool.commands.rows.listing import ListingView

        if view is ListingView.topics:
            return ls_rows.topic_rows(self.places, self._guest)
        if view is ListingView.segments:
            return ls_rows.segment_rows(self.places, self._guest)
        if view is ListingView.files:
            return ls_rows.file_rows(self.places, self.log_dirs if self._loose_files else [])
        return ls_rows.partition_rows(self.places, self._guest)

    def _space_rows(self, fmt: Format) -> Iterator[LsRow]:
        from kafkatool.commands.rows.listing import space_lines, space_row
        from kafkatool.engine.directory.space import account

        if not self.log_dirs:
            raise UsageError("--space needs a log directory or a server.properties")
        for space in account(self.log_dirs):
            if fmt is Format.ndjson:
                yield space_row(space)
            else:
                yield from space_lines(space)

    def _headings(self) -> None:
        """Print whose the directories are, and what in them is not Kafka's."""
        from kafkatool.commands.rows.listing import logdir_row

        for log_dir in self.log_dirs:
            row = logdir_row(log_dir)
            self._talk.heading(_heading(row))
            for path in row["unknown_directories"]:
                is_fatal = path in log_dir.unknown_directories
                effect = "; a broker does not start with it here" if is_fatal else ""
                self._talk.note(f"{path}: unknown directory{effect}")
            for path in row["unknown_files"]:
                self._talk.note(f"{path}: unknown file")


def _heading(row: dict[str, Any]) -> str:
    from kafkatool.format import kinds

    facts = [
        ("cluster", row["cluster_id"]),
        ("node", row["node_id"]),
        ("directory", row["directory_id"]),
    ]
    said = ", ".join(f"{name} {value}" for name, value in facts if value is not None)
    ending = "shut down cleanly" if row["clean_shutdown"] else "no clean shutdown marker"
    if not said:
        is_there = os.path.lexists(os.path.join(row["log_dir"], kinds.META_PROPERTIES.name))
        said = "meta.properties cannot be read" if is_there else "no meta.properties"
    return f"{row['log_dir']}: {said}; {ending}"


def _as_last_line(total: LsRow, view: ListingView) -> LsRow:
    """Return the totals as the last line of a table: "total" in the first column, the rest as above."""
    from kafkatool.commands.rows.listing import COLUMNS, ListingView

    line = {**total, COLUMNS[view][0].key: "total"}
    if view is not ListingView.topics:
        line.pop("partitions")
    return line
