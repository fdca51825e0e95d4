"""`kafkatool cache-map`: which parts of the logs are in the page cache, and what that means for consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.cache_map.looking import Looking
from kafkatool.commands.cache_map.options import (
    CacheChangeOptions,
    MapFormat,
    ReaderOptions,
    ViewOptions,
    WatchOptions,
)
from kafkatool.commands.line.options import CommonOptions, FileOptions, PathOptions, RawOpt, epilog
from kafkatool.commands.line.record_options import LimitOpt
from kafkatool.errors import UsageError

if TYPE_CHECKING:
    from kafkatool.commands.rows.cache import CacheView
    from kafkatool.engine.directory.targets import Target

EPILOG = epilog(
    {
        "kafkatool cache-map /var/lib/kafka/data": "how much of each partition is in memory",
        "kafkatool cache-map --segments /var/lib/kafka/data/orders-0": "each segment as a strip",
        "kafkatool cache-map --groups /var/lib/kafka/data": "which consumer groups would read from the disk",
        "kafkatool cache-map --watch /var/lib/kafka/data/orders-0": "repeat every two seconds",
        "kafkatool cache-map --format html DIR > cache.html": "one HTML page to send to someone",
        "kafkatool cache-map --warm --last 2G --apply DIR/orders-0": "read the last 2 GiB into memory",
        "kafkatool cache-map --evict --to now-6h --apply DIR/orders-0": "drop what is older than six hours",
    },
    5,
)


def cache_map(
    where: FileOptions,
    *,
    views: ViewOptions,
    pid: Annotated[
        int | None,
        typer.Option(
            "--pid",
            metavar="PID",
            help="Show the files that this broker process has open.",
        ),
    ] = None,
    readers: ReaderOptions,
    watching: WatchOptions,
    change: CacheChangeOptions,
    limit: LimitOpt = None,
    fmt: Annotated[MapFormat, typer.Option("--format", help="Output format.")] = MapFormat.table,
    width: Annotated[
        int,
        typer.Option(
            "--width", metavar="COLUMNS", min=0, help="Width of the table; 0: that of the terminal, or 80."
        ),
    ] = 0,
    raw: RawOpt = False,
    common: CommonOptions,
) -> None:
    """Show which pages of logs and indexes are in the page cache: resident, dirty, or only on disk.

    Uses mincore and cachestat: looking loads nothing into the cache and changes no access time. For a file
    that you neither own nor may write, the kernel does not answer; the output then says "unknown". --warm and
    --evict are plans and need --apply: at most as much is loaded as memory has free, and the active segment
    of a log in use is never dropped.
    """
    looking = Looking(common.guest(), common.talk(), fmt, raw, limit, width)
    targets = _targets(where, pid, looking)
    looking.lags = _lags(readers.lag or [])
    looking.groups = readers.groups
    view = views.view(targets)
    action = change.action()
    if action is not None:
        looking.change(targets, action, change)
    elif watching.watch:
        _watch(looking, targets, view, watching)
    elif fmt in (MapFormat.svg, MapFormat.html):
        looking.draw(targets)
    else:
        every_kind = fmt is MapFormat.ndjson and not views.is_chosen
        from kafkatool.commands.cache_map.show import show

        show(looking, targets, view, every_kind=every_kind, with_ranges=views.pages)
    raise typer.Exit(looking.exit_code())


def _watch(looking: Looking, targets: list[Target], view: CacheView, watching: WatchOptions) -> None:
    from kafkatool.commands.cache_map.show import watch

    if looking.fmt in (MapFormat.svg, MapFormat.html):
        raise UsageError("--watch writes tables or NDJSON")
    watch(looking, targets, view, watching.interval, watching.rounds)


def _targets(where: PathOptions, pid: int | None, looking: Looking) -> list[Target]:
    from kafkatool.engine.directory.targets import FileTarget
    from kafkatool.format.kinds import ALL

    if pid is None:
        expansion = where.expand(readable=ALL)
        looking.failures += expansion.problems
        return expansion.targets
    from kafkatool.engine.files.open_files import open_kafka_files

    if where.paths or where.files_from:
        raise UsageError("--pid takes no PATH; the process says which files it has open")
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
            raise UsageError(f"--lag {text!r}: write GROUP=OFFSET")
        found[group] = int(offset)
    return found
