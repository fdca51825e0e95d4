"""Every command is documented, in its help, a man page, the change log and the README, and has a golden."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from kafkatool.cli import app, leaves
from tests.places import ROOT
from tests.transcripts import PAGES, PER_COMMAND, commands

ROOT_COMMAND: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = leaves(ROOT_COMMAND)
GENERATOR = runpy.run_path(str(ROOT / "man" / "generate.py"))
GENERATED: dict[str, str] = GENERATOR["pages"]()

every_command = pytest.mark.parametrize("name", COMMANDS)


@every_command
def test_every_option_and_argument_says_what_it_does(name: str) -> None:
    silent = [parameter.name for parameter in COMMANDS[name].params if not parameter.help]
    assert silent == []


@every_command
def test_every_command_has_examples_and_exit_codes(name: str) -> None:
    examples, _, codes = COMMANDS[name].epilog.partition("Exit codes:")
    assert len(re.findall(rf"^  # .+\n  kafkatool {name} .+$", examples, re.MULTILINE)) >= 3
    told = {int(code) for code in re.findall(r"^  (\d+) +\S", codes, re.MULTILINE)}
    assert {0, 2, 3, 130, 141} <= told


HELPS = [[], ["bench"], ["pipeline"], *(name.split() for name in COMMANDS)]


@pytest.mark.parametrize("words", HELPS, ids=" ".join)
@pytest.mark.parametrize("columns", [80, 200])
def test_every_help_has_purpose_examples_options_and_exit_codes_in_this_order(
    words: list[str], columns: int
) -> None:
    asked = CliRunner().invoke(app, [*words, "--help"], prog_name="kafkatool", env={"COLUMNS": str(columns)})
    lines = asked.stdout.splitlines()
    titles = [line for line in lines if re.fullmatch(r"[A-Z][A-Za-z ]*:", line)]
    assert asked.exit_code == 0
    assert lines[0].startswith(" ".join(["Usage: kafkatool", *words]))
    assert titles[0] == "Examples:"
    assert titles[-1] == "Exit codes:"
    assert lines.index("Examples:") <= 6, "what it is for is said in a line or two"
    assert max(map(len, lines)) <= min(columns, 100)
    assert any(line.startswith("  kafkatool ") for line in lines)


@every_command
def test_every_example_names_only_options_that_exist(name: str) -> None:
    known = {option for parameter in COMMANDS[name].params for option in parameter.opts}
    examples = COMMANDS[name].epilog.partition("Exit codes:")[0]
    used = re.findall(rf"^  kafkatool {name} ([^|\n]+)", examples, re.MULTILINE)
    assert {word for line in used for word in re.findall(r"--[a-z-]+", line)} <= known


@every_command
def test_every_command_has_a_man_page(name: str) -> None:
    page = f"kafkatool-{name.replace(' ', '-')}"
    assert f"{page}.1" in GENERATED
    assert f".BR {page.replace('-', chr(92) + '-')} (1)" in GENERATED["kafkatool.1"]


@pytest.mark.parametrize("page", GENERATED)
def test_the_man_pages_are_those_of_these_commands(page: str) -> None:
    assert (ROOT / "man" / page).read_text() == GENERATED[page], "if this is right: make man"


def test_the_json_schema_is_that_of_the_declared_rows() -> None:
    written = (ROOT / "docs" / "ndjson.schema.json").read_text()
    assert written == GENERATOR["schema"](), "if this is right: make man"


def test_there_is_no_man_page_without_a_command() -> None:
    assert {path.name for path in (ROOT / "man").glob("*.[0-9]")} == set(GENERATED)


@pytest.mark.parametrize("page", GENERATED)
def test_the_man_pages_are_set_without_a_warning(page: str) -> None:
    if shutil.which("groff") is None:
        pytest.skip("there is no groff to set them with")
    done = subprocess.run(
        ["groff", "-man", "-ww", "-z", "-Tutf8"],
        input=GENERATED[page].encode(),
        capture_output=True,
        check=True,
    )
    assert done.stderr == b""


@every_command
def test_every_command_has_a_line_in_the_change_log(name: str) -> None:
    assert re.search(rf"^- `kafkatool {name}` ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


@every_command
def test_every_command_is_in_the_readme_and_at_work_in_the_tour(name: str) -> None:
    readme, tour = (page.read_text() for page in PAGES)
    assert f"**`kafkatool {name}`**" in readme
    assert any(command.startswith(f"kafkatool {name} ") for command in commands(tour))


@every_command
def test_every_command_has_a_golden_of_each_format(name: str) -> None:
    shown = commands((PER_COMMAND / f"{name.replace(' ', '-')}.md").read_text())
    # A report needs something to report of: others of its group may come before it.
    group = name.split()[0]
    assert all(command.startswith((f"kafkatool {group} ", "echo $?")) for command in shown)
    choices = next((parameter for parameter in COMMANDS[name].params if parameter.name == "fmt"), None)
    if choices is None:  # that it is one of the few, test_contract.py sees to
        return
    for choice in set(choices.type.choices) - {choices.default}:
        assert any(f"--format {choice} " in command for command in shown), choice
    assert any("--format " not in command for command in shown), choices.default


HEAVY = {
    *("numpy", "pyarrow", "pyspark", "rich", "psutil", "hypothesis", "pytest"),
    *("gzip", "zstandard", "lz4", "snappy", "cramjam", "crc32c", "ctypes"),
}


@pytest.mark.parametrize("words", HELPS, ids=" ".join)
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "kafkatool", *words, "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "kafkatool" in loaded
    assert loaded & HEAVY == set()
