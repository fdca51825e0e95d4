"""A log directory seen from outside: its content, and whether somebody holds its lock."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path


def read_tree(root: Path, *, ours: bool = False) -> dict[str, bytes]:
    """Return all files, without those that kafkatool keeps unless `ours`."""
    found = {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}
    return {
        name: data for name, data in found.items() if ours or (".kafkatool-" not in name and name != ".lock")
    }


def digest(root: Path, *, ours: bool = False) -> dict[str, str]:
    """Return the checksums of all files, without the lock, whose creator is unknown."""
    found = read_tree(root, ours=ours)
    return {name: sha256(data).hexdigest() for name, data in found.items() if name != ".lock"}


@contextmanager
def locked(log_dir: Path) -> Iterator[int]:
    """Run another process that holds the lock as Java does; yield its id."""
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
