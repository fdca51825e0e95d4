"""The table of advice: all of it is there, and can be pasted whatever the names on the disk are."""

from __future__ import annotations

import ast
import re
import string
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

import kafkatool
from kafkatool.cli import app, leaves
from kafkatool.engine.advice.shell_words import quoted
from kafkatool.engine.advice.table import Advice, Placeholder

PACKAGE = Path(kafkatool.__file__).parent
HOSTILE = ("a b", "it's", "x\x1b[2J$(touch hit)", "line\nbreak", "bad\udcff", "\u202eabc", "-rf", "`id`;")

_VERBS = "|".join(sorted(typer.main.get_command(app).commands))  # type: ignore[attr-defined]
_COMMAND = re.compile(
    rf"kafka-[a-z-]+\.sh|kafkatool (?:{_VERBS})\b"
    r"|(?:^|[:;`#]\s*)(?:mv|cp|rm|chown|chmod|printf|sysctl|mount|ulimit|systemctl) "
)
# Titles of pages, and what a client is told by a server that it may not know.
TITLES = {
    *("kafkatool cache-map", "kafkatool report: ", "kafkatool report "),
    *("kafkatool serve is read-only", "there are no transactions here: kafkatool serve is read-only"),
}


def printed_texts(module: Path) -> Iterator[str]:
    """String constants but docstrings and help."""
    tree = ast.parse(module.read_text())
    left_out = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "epilog":
            left_out |= {id(key) for argument in node.args for key in ast.walk(argument)}
        if isinstance(node, ast.keyword) and node.arg == "help":
            left_out |= {id(text) for text in ast.walk(node.value)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            yield node.value


def test_no_command_is_printed_that_is_not_in_the_table() -> None:
    found = {
        (str(module.relative_to(PACKAGE)), text)
        for module in PACKAGE.rglob("*.py")
        if module != PACKAGE / "engine/advice/table.py" and module.parent != PACKAGE / "commands/completion"
        for text in printed_texts(module)
        if _COMMAND.search(text) and text not in TITLES
    }
    assert found == set()


def fields(advice: Advice) -> list[str]:
    return [name for _, name, _, _ in string.Formatter().parse(advice.value) if name]


@pytest.mark.parametrize("advice", Advice, ids=str)
def test_every_advice_is_words_to_a_shell_whatever_the_names(advice: Advice, tmp_path: Path) -> None:
    shown = []
    for name in HOSTILE:
        text = advice(**dict.fromkeys(fields(advice), name))
        assert text.isprintable()
        _, _, words = text.partition("  # ")[0].partition(" ")
        words = re.sub(r"<[A-Z_:]+>|<<<|&&|[>|]", "-", words)
        shown.append(f"printf '%s\\0' {words}; printf '\\0'")
    run = subprocess.run(["bash", "-c", "\n".join(shown)], cwd=tmp_path, capture_output=True, check=True)
    assert list(tmp_path.iterdir()) == []
    for name, said in zip(HOSTILE, run.stdout.split(b"\0\0"), strict=False):
        found = said.count(name.encode("utf-8", "surrogateescape"))
        assert found >= len(fields(advice)) - advice.value.partition("  # ")[2].count("{")


def test_placeholders_stay_as_they_are() -> None:
    assert Advice.UNDO(command="recover", journal="j", backup_dirs=[Placeholder("<DIR>")]).endswith(" <DIR>")
    assert quoted("<DIR>") == "'<DIR>'"


@pytest.mark.parametrize("advice", Advice, ids=str)
def test_every_option_of_ours_in_the_table_exists(advice: Advice) -> None:
    commands = leaves(typer.main.get_command(app))
    found = re.match(r"kafkatool ((?:pipeline )?[a-z-]+)", advice.value)
    if found is None:
        return
    known = {name for option in commands[found[1]].params for name in option.opts}
    assert set(re.findall(r"(?<= )--?[a-z][a-z-]*", advice.value.partition("  # ")[0])) <= known
