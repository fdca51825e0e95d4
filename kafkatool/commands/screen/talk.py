"""Messages and progress on stderr; rich is imported only to paint progress, on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from kafkatool.commands.screen.terminal_text import is_terminal
from kafkatool.commands.screen.values import (
    printable,
    takes_escapes,
)


class Advance(Protocol):
    def __call__(self, amount: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Talk:
    """What goes to stderr, by -q, -v and --no-progress."""

    quiet: bool = False
    verbose: bool = False
    show_progress: bool = True

    def warn(self, message: str) -> None:
        """Said even with -q: the result is not what it seems without it."""
        _say(f"kafkatool: {message}")

    def warn_of_bad_blocks(self, count: int) -> None:
        """After the first block that a disk does not give, nothing is as urgent as an image of it."""
        if count:
            self.warn(f"the disk does not give {count} blocks of 4 KiB: image it before doing anything else")

    def note(self, message: str) -> None:
        """Said unless -q."""
        if not self.quiet:
            _say(f"kafkatool: {message}")

    def detail(self, message: str) -> None:
        """Said with -v only."""
        if self.verbose:
            _say(f"kafkatool: {message}")

    def heading(self, message: str) -> None:
        """A line of its own above a table, unless -q."""
        if not self.quiet:
            _say(message)

    @contextmanager
    def progress(self, label: str, total: int | None) -> Iterator[Advance]:
        """A bar of bytes on stderr; nothing unless that is a terminal which can draw one."""
        if self.quiet or not self.show_progress or not takes_escapes(sys.stderr):
            yield lambda amount: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        shape = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(True), TimeRemainingColumn())
        # What is printed meanwhile goes above the bar, as it is. Rich would have it all on the bar's own
        # stream: results only where that is the same terminal.
        console = Console(stderr=True, soft_wrap=True)
        is_shared = is_terminal(sys.stdout)
        try:
            with Progress(*shape, console=console, transient=True, redirect_stdout=is_shared) as bar:
                task = bar.add_task(label, total=total)
                yield lambda amount: bar.advance(task, amount)
        finally:
            console.show_cursor(True)  # an interrupt may come between hiding it and being ready to show it


def _say(message: str) -> None:
    # Nobody listening on stderr is no reason to stop working.
    with suppress(OSError, ValueError):
        print(printable(message), file=sys.stderr, flush=True)
