"""Messages and progress on stderr; rich is imported only to draw progress on a terminal."""

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
    """What is written to stderr, as -q, -v and --no-progress say."""

    quiet: bool = False
    verbose: bool = False
    show_progress: bool = True

    def warn(self, message: str) -> None:
        """Print a message even with -q: without it the result would be misleading."""
        _say(f"kafkatool: {message}")

    def warn_of_bad_blocks(self, count: int) -> None:
        """Advise to image the disk: after the first unreadable block nothing is more urgent."""
        if count:
            self.warn(f"the disk does not give {count} blocks of 4 KiB: image it before doing anything else")

    def note(self, message: str) -> None:
        """Print a message, unless -q."""
        if not self.quiet:
            _say(f"kafkatool: {message}")

    def detail(self, message: str) -> None:
        """Print a message, only with -v."""
        if self.verbose:
            _say(f"kafkatool: {message}")

    def heading(self, message: str) -> None:
        """Print a line of its own above a table, unless -q."""
        if not self.quiet:
            _say(message)

    @contextmanager
    def progress(self, label: str, total: int | None) -> Iterator[Advance]:
        """Show a progress bar of bytes on stderr; show nothing unless it is a terminal that can draw one."""
        if self.quiet or not self.show_progress or not takes_escapes(sys.stderr):
            yield lambda amount: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        shape = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(True), TimeRemainingColumn())
        # What is printed meanwhile appears above the bar, unchanged. Rich would send it all to the bar's own
        # stream; for results do that only if both are the same terminal.
        console = Console(stderr=True, soft_wrap=True)
        is_shared = is_terminal(sys.stdout)
        try:
            with Progress(*shape, console=console, transient=True, redirect_stdout=is_shared) as bar:
                task = bar.add_task(label, total=total)
                yield lambda amount: bar.advance(task, amount)
        finally:
            console.show_cursor(True)  # an interrupt may come right after the cursor is hidden


def _say(message: str) -> None:
    # If nobody reads stderr, that is no reason to stop working.
    with suppress(OSError, ValueError):
        print(printable(message), file=sys.stderr, flush=True)
