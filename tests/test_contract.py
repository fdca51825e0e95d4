"""The contract of the command line as a table: which command takes which of the shared options.

A command that is new gets its words into the rows where it belongs. Who knows one command can guess the next:
an option of one name takes one kind of value everywhere, but for the exceptions that are listed.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import typer.main

from kafkatool.cli import app, leaves
from kafkatool.commands.line.command_line import SHARED

COMMANDS: dict[str, Any] = leaves(typer.main.get_command(app))

RECORDS = {"dump-log", "cat", "export"}
STREAM = RECORDS | {"ls", "stats", "lookup", "sql", "cache-map"}
PLAN = {"rebuild-index", "recover", "retention", "compact"}
CHANGE = PLAN | {"set-aside"}
"""Those that go by no settings, too."""
AUDIT = {"pipeline run", "pipeline collect"}
MEASURE = {"bench append", "bench read", "bench lookup"}
OF_RESULTS = {"pipeline report", "bench compare"}
"""These read what others of us wrote, and no logs."""
SCRIPTS = {"completion"}
"""This prints a program, and nothing else."""
CHECK = {"verify", "doctor", "report"} | AUDIT
OF_LOGS = STREAM | CHANGE | CHECK | {"serve"}
ROWS = OF_LOGS | MEASURE | OF_RESULTS
EVERY = ROWS | SCRIPTS

CONTRACT = {
    "PATH": OF_LOGS,
    "--files-from": OF_LOGS,
    "-0": OF_LOGS,
    "--format": ROWS,
    "--raw": ROWS - {"cat", "export", "report"},  # they have no table
    "--bytes": RECORDS | {"stats", "compact", "sql"},  # the others show no byte strings
    "--from": RECORDS | {"stats", "cache-map"},
    "--to": RECORDS | {"stats", "cache-map"},
    "--at": {"retention", "compact", "stats", "report"} | AUDIT,
    "--time": {"lookup"},
    "--key": RECORDS | {"compact"},
    "--key-regex": RECORDS,
    "--header": RECORDS,
    "--producer-id": RECORDS,
    "--control": RECORDS,
    "--limit": RECORDS | {"ls", "cache-map"},
    "--tail": RECORDS,
    "--high-watermark": {"cat", "export", "retention", "compact", "serve"},
    "--set": PLAN | AUDIT | {"report"},
    "--config": PLAN | AUDIT | {"report"},
    "--kafka-version": {"retention", "compact", "report"} | AUDIT,
    "--compat": {"dump-log"},
    "--jobs": PLAN | {"export", "stats", "verify", "pipeline collect", "report"},
    "--spark": {"export", "stats", "verify", "retention", "compact", "sql", "pipeline run"},
    "--conf": {"export", "stats", "verify", "retention", "compact", "sql", "pipeline run"},
    "--max-rate": OF_LOGS,
    "--max-errors": OF_LOGS,
    "--cache": OF_LOGS,
    "-q": EVERY,
    "-v": EVERY,
    "--debug": EVERY,
    "--no-progress": EVERY,
    "--mend-bits": {"recover", "cat", "export", "serve"},  # the others show the bytes as they are
    "--redact": RECORDS | {"stats"},
    "--apply": CHANGE | {"cache-map"},
    "--offline": CHANGE,
    "--backup-dir": CHANGE,
    "--undo": CHANGE,
    "-o": MEASURE | AUDIT | {"export", "sql", "report"},
    "--output": MEASURE | AUDIT | {"export", "sql", "report"},
}

# Names that were promised before they were made one.
ALIASES = {
    "--out": ("--output", MEASURE | {"pipeline run", "report"}),
    "--now": ("--at", {"stats", "report"} | AUDIT),
}

# What one name means in two ways, because Kafka's own tool or an issue says so.
TWO_MEANINGS = {"--files", "--keep", "--partitions"}


def options(name: str) -> dict[str, Any]:
    """Every spelling of every option, and PATH where it takes paths."""
    found = {}
    for parameter in COMMANDS[name].params:
        names = ["PATH"] if parameter.name == "paths" else [*parameter.opts, *parameter.secondary_opts]
        found.update(dict.fromkeys(names, parameter))
    return found


def test_every_command_has_a_place_in_the_contract() -> None:
    assert set(COMMANDS) == EVERY


@pytest.mark.parametrize("option", CONTRACT)
def test_a_shared_option_is_taken_by_all_that_should_and_by_nobody_else(option: str) -> None:
    assert {name for name in COMMANDS if option in options(name)} == CONTRACT[option]


@pytest.mark.parametrize("alias", ALIASES)
def test_a_promised_name_is_another_one_for_the_shared_option(alias: str) -> None:
    meant, commands = ALIASES[alias]
    assert {name for name in COMMANDS if alias in options(name)} == commands
    assert all(options(name)[alias] is options(name)[meant] for name in commands)


@pytest.mark.parametrize("name", COMMANDS)
def test_exit_4_is_what_fail_on_decides_about(name: str) -> None:
    says_4 = "\n  4 " in COMMANDS[name].epilog
    assert says_4 == ("--fail-on" in options(name))


@pytest.mark.parametrize("name", sorted(ROWS))
def test_every_command_writes_ndjson_and_never_by_a_short_option(name: str) -> None:
    taken = options(name)["--format"]
    assert "ndjson" in taken.type.choices
    assert taken.opts == ["--format"]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_options_that_all_have_are_the_last_of_each_help(name: str) -> None:
    shown = COMMANDS[name].get_help(typer.Context(COMMANDS[name], info_name=name))
    shared = shown.partition("Shared options:")[2]
    assert re.findall(r"^  (?:-., )?(--[a-z-]+)", shared.partition("Exit codes:")[0], re.MULTILINE) == [
        parameter.opts[-1] for parameter in COMMANDS[name].params if parameter.name in SHARED
    ] + ["--help"]


def test_an_option_of_one_name_takes_one_kind_of_value() -> None:
    kinds: dict[str, set[tuple[object, ...]]] = {}
    for command in COMMANDS:
        for option, parameter in options(command).items():
            if option.startswith("--") and option != "--format":
                kinds.setdefault(option, set()).add((parameter.type.name, getattr(parameter, "is_flag", 0)))
    assert {option for option, found in kinds.items() if len(found) > 1} == TWO_MEANINGS
