"""Kafka's own kafka-dump-log of each release, in one long-lived JVM per release.

The tool changes what it reads (it trims and creates index files): hand it a copy, or call `dump_copy`.
"""

from __future__ import annotations

import os
import selectors
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple

from tests.kafka import class_archive, peers

DIR = "@DIR@"

_SERVER = Path(__file__).parent / "java" / "DumpServer.java"
_ANSWER_SECONDS = 120


class Result(NamedTuple):
    """What one run printed. `exception` is what left main (a process prints its stack trace and exits 1)."""

    stdout: bytes
    stderr: bytes
    exit_code: int
    exception: str | None


def main_class(version: str) -> str:
    """The tool moved when it was rewritten in Java."""
    old = tuple(map(int, version.split(".")[:2])) < (4, 3)
    return "kafka.tools.DumpLogSegments" if old else "org.apache.kafka.tools.DumpLogSegments"


def java_command(version: str, *, quiet: bool = True) -> list[str]:
    """A JVM of this release that writes UTF-8 and logs nothing."""
    level = "off" if quiet else "warn"
    return [
        peers.require_java(),
        *("-Xmx1g", "-Xshare:auto", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        *class_archive.flags(version),
        *("-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-Dstderr.encoding=UTF-8"),
        *(f"-Dorg.slf4j.simpleLogger.defaultLogLevel={level}", "-Dlog4j2.disable.jmx=true"),
        *("-cp", peers.classpath(version)),
    ]


def environment() -> dict[str, str]:
    """The tool writes in the locale's charset."""
    return {**os.environ, "LC_ALL": "C.UTF-8"}


class DumpTool:
    """`DumpTool("4.3.1").run(["--files", path])`: one JVM, started at the first run, stopped by `close`."""

    def __init__(self, version: str) -> None:
        self.version = version
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, arguments: Sequence[str | Path]) -> Result:
        """Run the tool's main with these arguments. The files named are changed by some modes."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        words = [os.fsencode(str(word)) for word in arguments]
        request = struct.pack(">i", len(words))
        request += b"".join(struct.pack(">i", len(word)) + word for word in words)
        try:
            process.stdin.write(request)
            process.stdin.flush()
            return self._answer(process.stdout)
        except (OSError, EOFError):
            self.close()
            raise

    def dump_copy(self, directory: Path, arguments: Sequence[str]) -> Result:
        """Run on a fresh copy of `directory`, which is `@DIR@` in the arguments and in what was printed."""
        with tempfile.TemporaryDirectory(prefix="kafkatool-dump-") as scratch:
            copy = Path(scratch) / "dir"
            copy_case(directory, copy)
            return masked(self.run([word.replace(DIR, str(copy)) for word in arguments]), copy)

    def close(self) -> None:
        """Stop the JVM; the next run starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            command = [*java_command(self.version), str(_SERVER), main_class(self.version)]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env=environment(),
            )
        return self._process

    def _answer(self, stream: IO[bytes]) -> Result:
        (code,) = struct.unpack(">i", _read(stream, 4))
        stdout, stderr, exception = (_read(stream, *struct.unpack(">i", _read(stream, 4))) for _ in range(3))
        return Result(stdout, stderr, code, exception.decode() or None)

    def __enter__(self) -> DumpTool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


@cache
def shared(version: str) -> DumpTool:
    """The one tool of this release that all tests of a session share."""
    return DumpTool(version)


def run_standalone(version: str, arguments: Sequence[str | Path]) -> subprocess.CompletedProcess[bytes]:
    """The tool as its script starts it: one process for one run."""
    command = [*java_command(version), main_class(version), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, env=environment(), timeout=_ANSWER_SECONDS)


def copy_case(source: Path, target: Path) -> None:
    """Copy a directory without what a fixture says about itself."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("golden.json", "ORIGIN.md"))


def masked(result: Result, directory: Path) -> Result:
    """The same with `@DIR@` for the directory."""
    name = os.fsencode(str(directory))
    return result._replace(
        stdout=result.stdout.replace(name, DIR.encode()),
        stderr=result.stderr.replace(name, DIR.encode()),
        exception=result.exception and result.exception.replace(str(directory), DIR),
    )


def _read(stream: IO[bytes], count: int) -> bytes:
    """Exactly this many bytes; EOFError if the JVM is gone, TimeoutError if it hangs."""
    parts = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while len(parts) < count:
            if not selector.select(_ANSWER_SECONDS):
                raise TimeoutError("the dump tool gave no answer")
            part = stream.read(count - len(parts))
            if not part:
                raise EOFError("the dump tool's JVM is gone")
            parts += part
    return bytes(parts)
