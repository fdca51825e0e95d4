"""The options of `cache-map`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.plan_options import ApplyOpt
from kafkatool.commands.line.record_options import FromOpt, ToOpt, parse_range
from kafkatool.errors import UsageError

if TYPE_CHECKING:
    from kafkatool.commands.rows.cache import CacheView
    from kafkatool.engine.batches.seek import Range
    from kafkatool.engine.cache.planning import CacheAction
    from kafkatool.engine.directory.targets import Target


class MapFormat(StrEnum):
    """The output formats."""

    table = "table"
    ndjson = "ndjson"
    svg = "svg"
    html = "html"


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """What each row describes."""

    topics: Annotated[bool, typer.Option("--topics", help="One row per topic.")] = False
    partitions: Annotated[bool, typer.Option("--partitions", help="One row per partition.")] = False
    segments: Annotated[
        bool, typer.Option("--segments", help="One row per segment, including its indexes.")
    ] = False
    files: Annotated[bool, typer.Option("--files", help="One row per file.")] = False
    pages: Annotated[
        bool, typer.Option("--pages", help="NDJSON: every file with its resident byte ranges.")
    ] = False

    def view(self, targets: list[Target]) -> CacheView:
        """Return the chosen view; by default, partitions for log directories, else segments or files."""
        from kafkatool.commands.rows.cache import CacheView
        from kafkatool.engine.directory.named_file import SEGMENT_FILES
        from kafkatool.engine.directory.targets import FileTarget, LogDirTarget

        chosen = [view for view in CacheView if getattr(self, view)]
        if len(chosen) > 1:
            raise UsageError(f"--{chosen[0]} and --{chosen[1]} exclude each other")
        if chosen:
            return chosen[0]
        if any(isinstance(one, FileTarget) and one.kind not in SEGMENT_FILES for one in targets):
            return CacheView.files
        has_log_dirs = any(isinstance(target, LogDirTarget) for target in targets)
        return CacheView.partitions if has_log_dirs else CacheView.segments

    @property
    def is_chosen(self) -> bool:
        return self.topics or self.partitions or self.segments or self.files


@dataclass(frozen=True, slots=True)
class CacheChangeOptions:
    """Loading into the cache and evicting from it."""

    warm: Annotated[bool, typer.Option("--warm", help="Plan to load what is not in memory.")] = False
    evict: Annotated[
        bool,
        typer.Option("--evict", help="Plan to drop pages; never those of an active segment in use."),
    ] = False
    from_: FromOpt = None
    to: ToOpt = None
    last: Annotated[
        str | None,
        typer.Option(
            "--last",
            metavar="SIZE",
            help="Only the last SIZE bytes of each log, for example 2G.",
        ),
    ] = None
    apply: ApplyOpt = False

    def action(self) -> CacheAction | None:
        from kafkatool.engine.cache.planning import CacheAction

        if self.warm and self.evict:
            raise UsageError("--warm and --evict exclude each other")
        if not (self.warm or self.evict):
            if self.apply or self.from_ or self.to or self.last:
                raise UsageError("--apply, --from, --to and --last belong to --warm or --evict")
            return None
        if self.last and (self.from_ or self.to):
            raise UsageError("--last excludes --from and --to")
        return CacheAction.WARM if self.warm else CacheAction.EVICT

    def range(self) -> Range:
        return parse_range(self.from_, self.to)

    def last_size(self) -> int | None:
        from kafkatool.commands.line.arguments import parse_size

        return None if self.last is None else parse_size(self.last)


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """The consumers to report on."""

    lag: Annotated[
        list[str] | None,
        typer.Option(
            "--lag",
            metavar="GROUP=OFFSET",
            help="Show whether a group that reads on from this offset would read from disk.",
        ),
    ] = None
    groups: Annotated[
        bool,
        typer.Option("--groups", help="The same for the groups found in __consumer_offsets on this disk."),
    ] = False


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """Options of repeated output."""

    watch: Annotated[bool, typer.Option("--watch", help="Repeat until Ctrl-C.")] = False
    interval: Annotated[
        float,
        typer.Option("--interval", metavar="SECONDS", min=0.1, help="Time between two rounds of --watch."),
    ] = 2.0
    rounds: Annotated[
        int | None,
        typer.Option("--rounds", metavar="N", min=1, help="End --watch after N rounds."),
    ] = None
