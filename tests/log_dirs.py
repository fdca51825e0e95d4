"""A log directory from outside: what is in it, and whether somebody holds it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def read_tree(root: Path, *, ours: bool = False) -> dict[str, bytes]:
    """What is there, without what kafkatool keeps unless that is wanted."""
    found = {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}
    return {
        name: data for name, data in found.items() if ours or (".kafkatool-" not in name and name != ".lock")
    }


@contextmanager
def locked(log_dir: Path) -> Iterator[None]:
    """Another process that holds the lock as Java does."""
    code = (
        "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); "
        "print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(log_dir / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        yield
        holder.communicate()
