"""What the README and the transcripts show of Spark is what happens, on the Spark that is running already."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kafkatool.cli import app
from tests.transcripts import BLOCK, commands, mask, needs_spark, prepare, replay, transcripts

ON_SPARK = [path for path in transcripts() if any(map(needs_spark, BLOCK.findall(path.read_text())))]


def play(block: str, directory: Path) -> Iterator[str]:
    """Commands run in this process; nothing else is in these blocks."""
    last_code = 0
    for command in commands(f"```console\n{block}```\n"):
        if command == "echo $?":
            yield f"$ {command}\n{last_code}\n"
            continue
        name, *words = shlex.split(command)
        assert name == "kafkatool"
        done = CliRunner().invoke(app, words, prog_name="kafkatool")
        last_code = done.exit_code
        yield f"$ {command}\n{done.output}".replace(str(directory.resolve()), "/path/to")


@pytest.mark.parametrize("path", ON_SPARK, ids=lambda path: path.name)
def test_the_shell_examples_print_what_they_show(
    spark: Any, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    written = path.read_text()
    told = replay(written, tmp_path, play=play, on_spark=True)
    assert mask(told) == mask(written), "if this is right: make transcripts"
