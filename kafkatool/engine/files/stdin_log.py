"""A log from standard input as a file: a pipe can be read only once, and has no name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from kafkatool.errors import KafkatoolError
from kafkatool.format.names import segment_file

STDIN = "-"
"""The path that stands for standard input."""


@contextmanager
def stdin_as_log() -> Iterator[str]:
    """Copy standard input to a log in a temporary directory, and yield its path; removed at the end."""
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
