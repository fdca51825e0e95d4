"""A log directory from outside: what is in it, and whether somebody holds it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path


def read_tree(root: Path, *, ours: bool = False) -> dict[str, bytes]:
    """What is there, without what kafkatool keeps unless that is wanted."""
    found = {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}
    return {
        name: data for name, data in found.items() if ours or (".kafkatool-" not in name and name != ".lock")
    }


def digest(root: Path, *, ours: bool = False) -> dict[str, str]:
    """The same by their checksums, without the lock, of which nobody knows who made it."""
    found = read_tree(root, ours=ours)
    return {name: sha256(data).hexdigest() for name, data in found.items() if name != ".lock"}


@contextmanager
def locked(log_dir: Path) -> Iterator[int]:
    """Another process that holds the lock as Java does; its id."""
    code = (
        "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); "
        "print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(log_dir / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        try:
            yield holder.pid
        finally:
            holder.communicate()
