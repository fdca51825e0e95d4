"""Kafka's own scripts by their names, and an advice of ours followed with them as it was printed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.kafka import peers
from tests.kafka.dump_tool import environment, java_command

_CLASSES = {
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-delete-records.sh": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-metadata-quorum.sh": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-reassign-partitions.sh": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-storage.sh": "kafka.tools.StorageTool",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
}
_SECONDS = 120


def write_scripts(folder: Path, version: str = peers.NEWEST) -> Path:
    """A directory for the PATH: the scripts, and this kafkatool."""
    folder.mkdir(exist_ok=True)
    java = shlex.join(java_command(version))
    commands = {name: f"{java} {main}" for name, main in _CLASSES.items()}
    commands["kafkatool"] = f"{shlex.quote(sys.executable)} -m kafkatool"
    for name, command in commands.items():
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        script.chmod(0o755)
    return folder


def follow(
    advice: str, scripts: Path, given: Mapping[str, object], *, more: str = "", codes: tuple[int, ...] = (0,)
) -> str:
    """Paste an advice into a shell, its placeholders filled in; returns what it printed.

    `more` is added at the end, as a user adds --apply to a plan.
    """
    for name, value in given.items():
        assert f"<{name}>" in advice, advice
        advice = advice.replace(f"<{name}>", shlex.quote(str(value)))
    command = advice.partition("  # ")[0]
    assert not re.search(r"<[A-Z_:]+>", command), command
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{command} {more}"],
        env={**environment(), "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode in codes, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr
