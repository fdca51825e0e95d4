"""The examples of every help, run as they stand on a log directory that has what they are about."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer.main

from kafkatool.cli import app, leaves
from tests.cli import Run, run
from tests.kafka import peers
from tests.transcripts import write_sample

COMMANDS: dict[str, Any] = leaves(typer.main.get_command(app))
# These are run by tests of their own: they go on until they are told to stop, measure, or need Spark.
NOT_HERE = re.compile(
    r"kafkatool (serve (?!--list )|bench|sql|pipeline (run|report))|--spark|--follow|--watch|--undo"
    r"|--decoder|-f '|<|kafka-topics.sh|cache-map --(warm|evict)|--free 200G"
)
PLACES = {"/var/lib/kafka/data": "data", "/mnt/": "mnt/", "/srv/": "srv/", "/aside": "aside", "DIR": "data"}


def examples() -> list[str]:
    found = []
    for name, command in COMMANDS.items():
        text = command.epilog.partition("Exit codes:")[0]
        found += re.findall(rf"^  (kafkatool {name} .*)$", text, re.MULTILINE)
    return [line for line in found if not NOT_HERE.search(line)]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with everything that the examples name."""
    desk = tmp_path_factory.mktemp("desk")
    write_sample(desk / "data")
    data = desk / "data"
    shutil.move(desk / "data-cluster.txt", desk / "cluster.txt")
    shutil.copytree(data / "orders-0", data / "users-0")
    shutil.copytree(data / "orders-0", data / f"lost-3.{'0' * 32}-stray")
    (desk / "orders-0").symlink_to("data/orders-0")
    (desk / "server.properties").write_text(f"log.dirs={data}\nnode.id=1\nprocess.roles=broker\n")
    shutil.copy(data / "orders-0" / "00000000000000000003.log", desk / "00000000000000000000.log")
    for name in ("mnt", "srv", "mnt/copy", "srv/parts", "srv/lake"):
        (desk / name).mkdir(exist_ok=True)
    shutil.copytree(data / "orders-0", desk / "mnt" / "copy" / "orders-0")
    return desk


def run_here(words: list[str], desk: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(desk)
    return run(*words[1:])


def test_there_are_examples_to_run() -> None:
    assert len(examples()) > 45


@pytest.mark.long
@pytest.mark.parametrize("example", examples())
def test_an_example_does_what_it_says(
    example: str, desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "--apply" in example:  # what it changes is for no other one to see
        desk = Path(shutil.copytree(desk, tmp_path / "desk", symlinks=True))
    for place, here in PLACES.items():
        example = example.replace(place, here)
    command, _, recipe = example.partition(" | ")
    command, _, target = command.partition(" > ")
    words = [path for word in shlex.split(command) for path in spread(word, desk)]
    done = run_here(words, desk, monkeypatch)
    said = done.stderr.decode()
    # 2 where a name of the example is not here, 5 where a guess must not be acted on: never an option.
    assert done.exit_code in (0, 2, 4, 5), said
    assert "No such option" not in said
    if target:
        assert done.stdout
    if recipe:
        assert done.exit_code in (0, 4)
        program = peers.require_program("jq")
        words = [program if word == "jq" else word for word in shlex.split(recipe)]
        if words[0] == program:
            ended = subprocess.run(words, input=done.stdout, capture_output=True, check=False)
            assert ended.returncode == 0, ended.stderr
            assert b"null" not in ended.stdout.split(), "a key that this row does not have"
            assert ended.stdout or "future" in recipe or "txn" in recipe, "it finds what is there"


def spread(word: str, desk: Path) -> list[str]:
    """What a shell makes of a word with a star."""
    if "*" not in word or "=" in word:
        return [word]
    return sorted(str(path.relative_to(desk)) for path in desk.glob(word)) or [word]
