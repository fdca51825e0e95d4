"""Wait for what another process does."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tests.kafka.librdkafka import wait_until


def has_open(pid: int, directory: Path) -> bool:
    """Return whether a process has a file below this directory open."""
    with suppress(OSError):
        return any(_lies_in(link, directory) for link in Path(f"/proc/{pid}/fd").iterdir())
    return False


def wait_until_open(pid: int, directory: Path) -> None:
    """Wait until a process opens a file below this directory."""
    wait_until(lambda: has_open(pid, directory), f"process {pid} to open a file in {directory}")


def _lies_in(link: Path, directory: Path) -> bool:
    with suppress(OSError):
        return os.readlink(link).startswith(f"{directory}/")
    return False
