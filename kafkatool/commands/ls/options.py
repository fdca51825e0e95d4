"""The options of `ls`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.record_options import LimitOpt
from kafkatool.errors import UsageError, unknown_word

if TYPE_CHECKING:
    from kafkatool.commands.rows.listing import ListingView, LsRow
    from kafkatool.engine.directory.targets import Target


class Sort(StrEnum):
    name = "name"
    size = "size"
    allocated = "allocated"
    time = "time"
    offset = "offset"


@dataclass(frozen=True, slots=True)
class ListingOptions:
    """What each row describes, and which rows are shown in which order."""

    topics: Annotated[bool, typer.Option("--topics", help="One row per topic.")] = False
    partitions: Annotated[bool, typer.Option("--partitions", help="One row per partition (default).")] = False
    segments: Annotated[bool, typer.Option("--segments", help="One row per segment.")] = False
    files: Annotated[bool, typer.Option("--files", help="One row per file.")] = False
    space: Annotated[
        bool, typer.Option("--space", help="Show where the space of the file systems went, inodes too.")
    ] = False
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            metavar="active|deleted|stray|future|metadata",
            help="Only partitions in this state; all by default.",
        ),
    ] = None
    sort: Annotated[
        Sort, typer.Option("--sort", help="Sort order. size, allocated and time list the greatest first.")
    ] = Sort.name
    reverse: Annotated[bool, typer.Option("--reverse", help="Reverse the order.")] = False
    limit: LimitOpt = None

    def view(self, targets: list[Target]) -> ListingView:
        """Return what each row describes; by default that depends on what was named. Raises UsageError."""
        from kafkatool.commands.rows.listing import ListingView
        from kafkatool.engine.directory.named_file import SEGMENT_FILES
        from kafkatool.engine.directory.targets import FileTarget

        chosen = [view for view in ListingView if getattr(self, view)]
        if len(chosen) > 1:
            raise UsageError(f"--{chosen[0]} and --{chosen[1]} exclude each other")
        if chosen:
            return chosen[0]
        loose = [target for target in targets if isinstance(target, FileTarget)]
        if not loose or len(loose) < len(targets):
            return ListingView.partitions
        return ListingView.segments if all(one.kind in SEGMENT_FILES for one in loose) else ListingView.files

    def states(self) -> list[str]:
        """Return the states of --state. Raises UsageError."""
        from kafkatool.engine.directory.log_dir import PartitionState

        known = [str(state) for state in PartitionState]
        for state in self.state or []:
            if state not in known:
                raise unknown_word("--state", state, known)
        return self.state or []

    def order(self) -> Callable[[Iterable[LsRow]], Iterable[LsRow]]:
        """Return a function that sorts rows; by name they are sorted already."""
        if self.sort is Sort.name:
            return (lambda found: reversed(list(found))) if self.reverse else (lambda found: found)
        keys = {
            Sort.size: ("size", "log_size"),
            Sort.allocated: ("allocated",),
            Sort.time: ("max_timestamp_ms", "modified_ms"),
            Sort.offset: ("first_offset", "segment", "offset"),
        }[self.sort]
        descending = (self.sort is not Sort.offset) != self.reverse

        def value(row: LsRow) -> int:
            known = (row[key] for key in keys if row.get(key) is not None)
            return int(next(known, -1))

        return lambda found: sorted(found, key=value, reverse=descending)
