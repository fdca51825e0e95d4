"""The output of `ls`: log directories, the rows of a view, totals."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from kafkatool.commands.rows import listing as ls_rows
from kafkatool.commands.rows.listing import COLUMNS, ListingView, LsRow
from kafkatool.commands.screen.outcome import RunOutcome
from kafkatool.commands.screen.table import rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import Format
from kafkatool.engine.directory.listing import Listed
from kafkatool.engine.directory.log_dir import ListingProblem
from kafkatool.engine.directory.space import account
from kafkatool.engine.files.source import Guest
from kafkatool.errors import UsageError
from kafkatool.format import kinds


@dataclass(frozen=True, slots=True)
class ListingTelling:
    """Rows go to stdout, sentences to stderr."""

    talk: Talk
    outcome: RunOutcome
    guest: Guest
    fmt: Format
    raw: bool

    def problems(self, problems: Iterable[ListingProblem]) -> None:
        """Report what could not be listed."""
        for problem in problems:
            if problem.vanished:
                self.talk.detail(f"{problem.path}: vanished meanwhile")
            else:
                self.outcome.fail(self.talk, [f"{problem.path}: {problem.message}"])

    def show(
        self,
        listed: Listed,
        view: ListingView,
        order: Callable[[Iterable[LsRow]], Iterable[LsRow]],
        limit: int | None,
    ) -> None:
        """Write the rows of a view, after the log directories and before the totals."""
        is_space = view is ListingView.space
        with rows(self.fmt, COLUMNS[view], raw=self.raw) as out:
            if self.fmt is Format.ndjson:
                for log_dir in listed.log_dirs:
                    out.write(ls_rows.logdir_row(log_dir))
            else:
                self._headings(listed)
            found = self._space_rows(listed) if is_space else islice(order(self._rows(listed, view)), limit)
            for row in found:
                if row.pop("unread", 0):
                    self.outcome.fail(self.talk, [str(row["problem"])])
                out.write(row)
            if not is_space and self.fmt is not Format.csv:
                total = ls_rows.total_row(listed.places, listed.loose)
                out.write(total if self.fmt is Format.ndjson else _as_last_line(total, view))

    def _rows(self, listed: Listed, view: ListingView) -> Iterator[LsRow]:
        match view:
            case ListingView.topics:
                return ls_rows.topic_rows(listed.places, self.guest)
            case ListingView.segments:
                return ls_rows.segment_rows(listed.places, self.guest)
            case ListingView.files:
                return ls_rows.file_rows(listed.places, listed.loose)
        return ls_rows.partition_rows(listed.places, self.guest)

    def _space_rows(self, listed: Listed) -> Iterator[LsRow]:
        if not listed.log_dirs:
            raise UsageError("--space needs a log directory or a server.properties")
        for space in account(listed.log_dirs):
            if self.fmt is Format.ndjson:
                yield ls_rows.space_row(space)
            else:
                yield from ls_rows.space_lines(space)

    def _headings(self, listed: Listed) -> None:
        """Print whose the directories are, and what in them is not Kafka's."""
        for log_dir in listed.log_dirs:
            row = ls_rows.logdir_row(log_dir)
            self.talk.heading(_heading(row))
            for path in row["unknown_directories"]:
                is_fatal = path in log_dir.unknown_directories
                effect = "; a broker does not start with it here" if is_fatal else ""
                self.talk.note(f"{path}: unknown directory{effect}")
            for path in row["unknown_files"]:
                self.talk.note(f"{path}: unknown file")


def _heading(row: dict[str, Any]) -> str:
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
    line = {**total, COLUMNS[view][0].key: "total"}
    if view is not ListingView.topics:
        line.pop("partitions")
    return line
