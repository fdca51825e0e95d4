"""Run runbooks as they are in `docs/runbooks`, with the commands of this tree."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.kafka import peers
from tests.log_dirs import read_tree
from tests.places import ROOT
from tests.transcripts import environment, write_programs

RUNBOOKS = ROOT / "docs" / "runbooks"
_SECONDS = 120


class Ended(NamedTuple):
    exit_code: int
    text: str
    """All that it printed."""


class Desk:
    """A place to run them from."""

    def __init__(self, directory: Path) -> None:
        peers.require_program("jq")
        self.directory = directory
        write_programs(directory)

    def run(self, name: str, *arguments: str | Path, **variables: str) -> Ended:
        done = subprocess.run(
            [str(RUNBOOKS / f"{name}.sh"), *map(str, arguments)],
            cwd=self.directory,
            env={**environment(self.directory), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        return Ended(done.returncode, done.stdout)


@contextmanager
def unchanged(directory: Path) -> Iterator[None]:
    """Check that a directory is unchanged, as a plan must leave it."""
    before = read_tree(directory, ours=True)
    yield
    assert read_tree(directory, ours=True) == before
