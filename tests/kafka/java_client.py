"""The Java client and other small programs of `java/` as servants of a test: a line of JSON each way."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, cast

from tests.kafka import peers
from tests.kafka.dump_tool import environment, java_command
from tests.kafka.librdkafka import Record, wait_for_markers

_SOURCES = Path(__file__).parent / "java"


class JavaError(Exception):
    """The Java side threw; the message is its stack trace."""


def _compiled(version: str, jars: str, source: str) -> Path:
    """Where the classes of a program are; compiled for this release if they were not yet."""
    sources = [_SOURCES / "Servant.java", _SOURCES / source]
    digest = sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    target = peers.cache_dir() / "classes" / f"{source.removesuffix('.java')}-{version}-{digest}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        made = tempfile.mkdtemp(dir=target.parent)
        compiler = [peers.require_java(), "-m", "jdk.compiler/com.sun.tools.javac.Main"]
        words = [*compiler, "-nowarn", "-cp", jars, "-d", made, *map(str, sources)]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            shutil.rmtree(made)
            raise JavaError(done.stderr)
        with suppress(OSError):  # another process was as quick
            os.rename(made, target)
        shutil.rmtree(made, ignore_errors=True)
    return target


class JavaServant:
    """One JVM in which a class of `java/` answers one JSON object for each it gets."""

    def __init__(self, version: str, source: str) -> None:
        *command, jars = java_command(version, quiet=False)
        classes = os.pathsep.join([jars, str(_compiled(version, jars, source))])
        self._errors = cast("IO[bytes]", tempfile.TemporaryFile())  # noqa: SIM115 - closed by close()
        self._process = subprocess.Popen(
            [*command, classes, "Servant", source.removesuffix(".java")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment(),
        )

    def call(self, op: str, **arguments: Any) -> Any:
        """Run one operation; raise JavaError with its stack trace if it threw."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"op": op, **arguments}).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            raise JavaError(self._errors.read().decode(errors="replace"))
        answer = json.loads(line)
        if "error" in answer:
            raise JavaError(answer["error"])
        return answer.get("result")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()


class JavaClient:
    """The Java producer, consumer and admin of one release against one broker."""

    def __init__(self, version: str, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._servant = JavaServant(version, "Client.java")

    def produce(
        self, topic: str, steps: Sequence[Sequence[Record]], *, partition: int = 0, **config: object
    ) -> None:
        """Send each step as one batch (if it is small); `config` with `_` for `.`."""
        self._run(topic, partition, [("send", step) for step in steps], config)

    def transactions(
        self, topic: str, script: Sequence[tuple[str, Any]], *, partition: int = 0, **config: object
    ) -> None:
        """A script of ("begin", None), ("send", records), ("offsets", group), ("commit"|"abort", None).

        When it returns, the markers of all that was ended are in the log.
        """
        self._run(topic, partition, script, config)
        if script and script[-1][0] in ("commit", "abort"):
            wait_for_markers(self.bootstrap, str(config["transactional_id"]))

    def consume(self, topic: str, count: int, **config: object) -> list[Record]:
        """The next `count` records as a member of a group; the offsets are committed when it leaves."""
        rows = self.call("consume", topic=topic, count=count, config=self._config(config))
        return [
            Record(_bytes(row["key"]), _bytes(row["value"]), _headers(row["headers"]), row["timestamp"])
            for row in rows
        ]

    def call(self, op: str, *, config: Mapping[str, str] | None = None, **arguments: Any) -> Any:
        """Any operation of Client.java."""
        return self._servant.call(
            op, config={"bootstrap.servers": self.bootstrap, **(config or {})}, **arguments
        )

    def close(self) -> None:
        self._servant.close()

    def _run(
        self, topic: str, partition: int, script: Sequence[tuple[str, Any]], config: Mapping[str, object]
    ) -> None:
        steps = [
            {"do": do, "records": [_row(record) for record in argument]}
            if do == "send"
            else {"do": do, "argument": argument}
            for do, argument in script
        ]
        self.call("produce", topic=topic, partition=partition, steps=steps, config=self._config(config))

    def _config(self, config: Mapping[str, object]) -> dict[str, str]:
        return {name.replace("_", "."): str(value) for name, value in config.items()}


def require_servant(version: str, source: str) -> JavaServant:
    """For tests: a servant, or skip (fail under KAFKATOOL_REQUIRE_PEERS=1)."""
    peers.require_kafka(version)
    return JavaServant(version, source)


def _row(record: Record) -> dict[str, object]:
    return {
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(value)] for name, value in record.headers],
        "timestamp": record.timestamp_ms,
    }


def _headers(rows: Sequence[Sequence[str]]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((name, _bytes(value)) for name, value in rows)


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else base64.b64decode(value)
