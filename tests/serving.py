"""A `kafkatool serve` for one test, and a bare client to query it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kafkatool.format.protocol.apis import BY_NAME
from kafkatool.format.protocol.frames import read_response, write_request

_START_SECONDS = 120
_ANSWER_SECONDS = 90


class Served:
    """The command in its own process, on a free port; `summary` is what it prints at the end."""

    def __init__(self, *words: str | Path, wrapper: tuple[str, ...] = ()) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop()
        command = [sys.executable, "-m", "kafkatool", "serve", "--format", "ndjson"]
        if "--listen" not in words:
            command += ["--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            [*wrapper, *command, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait(_START_SECONDS)
            raise RuntimeError(f"exit code {self.process.returncode}: {self.stderr()}")
        self.row: dict[str, Any] = json.loads(line)
        self.port = int(self.row["port"])
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.summary: dict[str, Any] = {}

    @property
    def memory(self) -> int:
        """Bytes that it has in memory now."""
        import psutil

        return int(psutil.Process(self.process.pid).memory_info().rss)

    def stderr(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode()

    def client(self) -> RawClient:
        return RawClient(self.port)

    def stop(self) -> int:
        """Ask it to end; return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        assert self.process.stdout is not None
        rest = self.process.stdout.read()
        self.process.stdout.close()
        code = self.process.wait(_START_SECONDS)
        if rest.strip():
            self.summary = json.loads(rest.splitlines()[-1])
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.stop()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._errors.close()


class RawClient:
    """Requests and responses as trees: nothing is retried, cached or hidden."""

    def __init__(self, port: int, host: str = "127.0.0.1", sock: socket.socket | None = None) -> None:
        self.sock = sock or socket.create_connection((host, port), timeout=_ANSWER_SECONDS)
        self._number = 0

    def call(self, name: str, version: int, **body: Any) -> dict[str, Any]:
        self.send(name, version, **body)
        return self.receive(name, version)

    def send(self, name: str, version: int, **body: Any) -> None:
        self._number += 1
        self.sock.sendall(write_request(BY_NAME[name], version, self._number, "raw", body))

    def receive(self, name: str, version: int) -> dict[str, Any]:
        number, answer = read_response(BY_NAME[name], version, self.receive_frame())
        assert number == self._number
        return answer

    def receive_frame(self) -> bytes:
        """Return one frame; raise EOFError if the connection ends."""
        size = int.from_bytes(self._exactly(4), "big")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        got = bytearray()
        while len(got) < size:
            piece = self.sock.recv(min(size - len(got), 1 << 20))
            if not piece:
                raise EOFError("the connection ended")
            got += piece
        return bytes(got)

    def fetch(
        self,
        topic: str,
        offset: int,
        *,
        partition: int = 0,
        max_bytes: int = 1 << 20,
        partition_max_bytes: int | None = None,
        committed: bool = False,
        version: int = 11,
        max_wait_ms: int = 0,
    ) -> dict[str, Any]:
        """Return one partition's part of the response."""
        most = max_bytes if partition_max_bytes is None else partition_max_bytes
        asked = {"partition": partition, "fetchOffset": offset, "partitionMaxBytes": most}
        answer = self.call(
            "fetch",
            version,
            maxWaitMs=max_wait_ms,
            minBytes=1,
            maxBytes=max_bytes,
            isolationLevel=int(committed),
            topics=[{"topic": topic, "partitions": [asked]}],
        )
        assert answer.get("errorCode", 0) == 0
        found: dict[str, Any] = answer["responses"][0]["partitions"][0]
        return found

    def offset(self, topic: str, timestamp: int, *, partition: int = 0, committed: bool = False) -> int:
        asked = {"partitionIndex": partition, "timestamp": timestamp}
        topics = [{"name": topic, "partitions": [asked]}]
        answer = self.call("list_offsets", 7, isolationLevel=int(committed), topics=topics)
        row = answer["topics"][0]["partitions"][0]
        assert row["errorCode"] == 0, row
        return int(row["offset"])

    @property
    def is_heard(self) -> bool:
        """Whether the other side, on this host, has read all that was sent."""
        ours, theirs = self.sock.getsockname()[1], self.sock.getpeername()[1]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            local, remote, _state, queues = line.split()[1:5]
            if (int(local[-4:], 16), int(remote[-4:], 16)) == (theirs, ours):
                return int(queues.partition(":")[2], 16) == 0
        return False

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def served(*words: str | Path) -> Iterator[Served]:
    """Run a server that must shut down cleanly."""
    with Served(*words) as running:
        yield running
        assert running.stop() == 0, running.stderr()
