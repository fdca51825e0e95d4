"""What `dump-log` dumps: files named with --files, and what paths stand for."""

from __future__ import annotations

from collections.abc import Iterator
from os.path import isfile

from kafkatool.commands.dump_log.request import DumpRequest
from kafkatool.commands.line.options import PathOptions
from kafkatool.commands.screen.outcome import RunOutcome
from kafkatool.commands.screen.told import told
from kafkatool.engine.directory.log_groups import log_groups
from kafkatool.engine.directory.named_file import identify, parse_read_as
from kafkatool.engine.directory.selection import Selection
from kafkatool.engine.directory.targets import FileTarget


def identify_listed(listed: list[str], read_as: str | None, request: DumpRequest) -> None:
    """Identify the files named with --files by content; Kafka's own text goes by their extensions."""
    for path in filter(isfile, listed):
        found = identify(path, parse_read_as(read_as), offers_read_as=True)
        if found is not None:
            request.read_as[path] = found.kind


def files_to_dump(
    listed: list[str], where: PathOptions, request: DumpRequest, outcome: RunOutcome
) -> Iterator[list[str]]:
    """Yield what to dump: files named with --files, unchanged, then what the paths stand for."""
    outcome.named.update(listed)
    yield from ([path] for path in listed)
    if listed and not where.paths and where.files_from is None:
        return

    expansion = where.expand(allow_stdin=True)
    for target in expansion.targets:
        if isinstance(target, FileTarget) and target.read_as is not None:
            request.read_as[target.path] = target.read_as.kind
    outcome.fail(request.talk, expansion.problems)
    outcome.named.update(target.path for target in expansion.targets)
    selection = Selection(expansion.targets, request.classic.guest)
    yield from told(log_groups(selection, request.chosen.wanted), request.talk, outcome)
