"""Where a report goes: to standard output as it comes, or to a file that is there only when it is whole."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from kafkatool.commands.screen.terminal_text import guarded
from kafkatool.commands.screen.values import stdout
from kafkatool.errors import KafkatoolError, UsageError

Write = Callable[[Iterable[str]], None]


@contextmanager
def opened(out: str | None) -> Iterator[Write]:
    """What takes pieces of text. Raises KafkatoolError before anything is read in vain."""
    if out in (None, "-"):
        yield guarded(stdout()).writelines
        return
    from kafkatool.engine.files.disk import Disk
    from kafkatool.engine.files.whole_files import Replacement, remove_leftovers

    path = os.path.realpath(str(out))
    if os.path.lexists(path) and not os.path.isfile(path):
        raise UsageError(f"{out}: is no plain file; -o - writes to standard output")
    try:
        remove_leftovers(Disk(), os.path.dirname(path), re.escape(os.path.basename(path)))
        new = Replacement(Disk(), path)
    except OSError as error:
        raise KafkatoolError(f"{out}: {error.strerror}") from None
    with new:

        def write(pieces: Iterable[str]) -> None:
            for piece in pieces:
                new.write(piece.encode("utf-8", "backslashreplace"))
            new.commit()

        yield write
