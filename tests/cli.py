"""Run the command line inside the test's own process."""

from __future__ import annotations

from typing import NamedTuple

from typer.testing import CliRunner

from kafkatool.cli import app


class Run(NamedTuple):
    exit_code: int
    stdout: bytes
    stderr: bytes

    @property
    def kafka_stderr(self) -> list[bytes]:
        """The lines of stderr that are Kafka's own."""
        return [line for line in self.stderr.split(b"\n") if line and not line.startswith(b"kafkatool: ")]


def run(*arguments: str) -> Run:
    """`run("dump-log", "--files", path)`; a bug shows as its exception."""
    result = CliRunner().invoke(app, list(arguments), prog_name="kafkatool")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Run(result.exit_code, result.stdout_bytes, result.stderr_bytes)
