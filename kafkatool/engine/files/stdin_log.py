"""A log on standard input, as a file: what is read more than once, or by its name, cannot be a pipe."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from kafkatool.errors import KafkatoolError
from kafkatool.format.names import segment_file

STDIN = "-"
"""What stands for it among paths."""


@contextmanager
def stdin_as_log() -> Iterator[str]:
    """The path of a log that holds what comes on standard input, in a temporary directory, until the end."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="kafkatool-", ignore_cleanup_errors=True) as directory:
        path = os.path.join(directory, "stdin", segment_file(0, ".log"))
        os.mkdir(os.path.dirname(path))
        try:
            _copy_stdin(path)
        except OSError as error:
            raise KafkatoolError(f"standard input, to be kept in {path}: {error.strerror}") from None
        yield path


def _copy_stdin(path: str) -> None:
    from shutil import copyfileobj

    with open(os.dup(0), "rb", buffering=0) as source, open(path, "wb", buffering=0) as out:
        copyfileobj(source, out, 1 << 20)
