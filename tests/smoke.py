"""A quick check that an installed kafkatool works: on the sample it prints what this tree's does."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.places import FIXTURES
from tests.transcripts import prepare

ORDERS = "sample/orders-0/00000000000000000003.log"

# Every codec, the kernel, forked workers, decoded internal topics, tables and plans.
COMMANDS = (
    "--help",
    "--version",
    "ls --segments sample",
    f"dump-log --deep-iteration --print-data-log --files {ORDERS}",
    "dump-log --format ndjson --print-data-log sample/__consumer_offsets-7",
    "cat --all --format ndjson sample",
    "stats --deep sample",
    "stats --deep --by file fixtures",
    "verify --deep fixtures",
    "verify --deep --jobs 2 sample",
    "lookup --offset 5 sample/orders-0",
    "retention --at 2026-03-02T00:00:00Z --set retention.ms=1 sample",
    "recover sample",
)

Run = Callable[[list[str]], "subprocess.CompletedProcess[bytes]"]


def assert_works(run: Run, directory: Path) -> None:
    """Run kafkatool with `run`, which takes arguments, in a directory that gets the sample."""
    if not (directory / "fixtures").exists():
        prepare(directory)
        shutil.copytree(FIXTURES / "log", directory / "fixtures")
    for line in COMMANDS:
        expected = of_this_tree(line.split(), directory)
        found = run(line.split())
        assert (found.returncode, found.stdout) == (expected.returncode, expected.stdout), (
            line,
            found.stderr,
        )
        assert b"should not happen" not in found.stderr


def of_this_tree(arguments: list[str], directory: Path) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "kafkatool", *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, check=False)
