"""Run the command line inside the test's own process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Container
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from kafkatool.cli import app

KAFKATOOL = [sys.executable, "-m", "kafkatool"]
"""The start of a command line that runs it in a process of its own."""

Row = dict[str, Any]


class Run(NamedTuple):
    exit_code: int
    stdout: bytes
    stderr: bytes

    @property
    def kafka_stderr(self) -> list[bytes]:
        """Lines of stderr that are Kafka's own."""
        return [line for line in self.stderr.split(b"\n") if line and not line.startswith(b"kafkatool: ")]

    @property
    def rows(self) -> list[Row]:
        """Rows printed with `--format ndjson`."""
        return parse_rows(self.stdout)

    def of(self, *kinds: str) -> list[Row]:
        return of_kind(self.rows, *kinds)


def run(*arguments: object) -> Run:
    """Run `run("dump-log", "--files", path)`; a bug shows as its exception."""
    result = CliRunner().invoke(app, list(map(str, arguments)), prog_name="kafkatool")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Run(result.exit_code, result.stdout_bytes, result.stderr_bytes)


def rows_of(verb: str, *arguments: object, codes: Container[int] | None = None) -> list[Row]:
    """Return a command's ndjson rows; it must end with one of these codes, if given."""
    done = run(verb, *arguments, "--format", "ndjson")
    assert codes is None or done.exit_code in codes, done
    return done.rows


def of_kind(found: list[Row], *kinds: str) -> list[Row]:
    return [row for row in found if row["kind"] in kinds]


def parse_rows(lines: bytes | str) -> list[Row]:
    return [json.loads(line) for line in lines.splitlines()]


def run_without_privileges(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it as a user who is bound by permissions: root drops the capability to read everything."""
    drop: list[str] = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root may read everything, and there is no setpriv to change that")
        drop = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    command = [*drop, *KAFKATOOL, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
