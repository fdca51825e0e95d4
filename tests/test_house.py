"""The house is as its map says: rooms, what they are for, and names that mean one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from kafkatool.cli import COMMANDS
from tests.house import layers, map_rows
from tests.places import ROOT

PACKAGE = ROOT / "kafkatool"
DESIGN = (ROOT / "docs" / "design.md").read_text()
MOST_ENTRIES = 30


def modules(directory: Path) -> list[str]:
    return [
        path.stem for path in directory.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    ]


def test_the_map_shows_every_room_with_its_line_and_its_level() -> None:
    shown = [
        line
        for line in DESIGN.splitlines()
        if line.startswith("| ") and ("| `engine/" in line or "| `commands/" in line)
    ]
    assert shown == list(map_rows())


def test_no_module_lies_outside_of_a_room() -> None:
    rooms = {room for layer in layers("kafkatool.engine") for room in layer}
    assert set(modules(PACKAGE / "engine")) == {"__init__", *rooms}
    verbs, *shared = layers("kafkatool.commands")
    assert {verb.replace("_", "-") for verb in verbs} == set(COMMANDS)
    assert set(modules(PACKAGE / "commands")) == {"__init__", *verbs, *(room for (room,) in shared)}


def test_no_directory_of_modules_is_a_corridor() -> None:
    for init in PACKAGE.rglob("__init__.py"):
        assert len(modules(init.parent)) <= MOST_ENTRIES, init.parent


def test_a_class_name_means_one_thing() -> None:
    found = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(path.relative_to(PACKAGE)))
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_every_module_that_a_way_names_is_there() -> None:
    ways = DESIGN.partition("### The way of one batch")[2].partition("\n## ")[0]
    named = [word for word in ways.replace("`", " ` ").split() if word.endswith(".py")]
    assert len(named) > 15
    for word in named:
        homes = (PACKAGE / word, PACKAGE / "engine" / word)
        assert any(home.exists() for home in homes), word


def test_tests_lie_in_the_rooms_of_what_they_test() -> None:
    for layer in ("engine", "commands", "format"):
        rooms = {path.parent for path in (ROOT / "tests" / layer).rglob("test_*.py")} - {
            ROOT / "tests" / layer
        }
        for room in rooms:
            assert (PACKAGE / room.relative_to(ROOT / "tests")).is_dir(), room


SCRATCH = {
    "engine/compaction/partition_run.py": "passes that are only counted write to a temporary directory",
    "commands/dump_log/classic/pairs.py": "spills to a temporary file without a name",
    "engine/bench/append.py": "measures what the disk does below `Files`",
    "engine/bench/read.py": "hands a parameter to OpenSSL in a temporary file",
    "engine/plan/work_directory.py": "is removed with all that is in it at the end of the run",
    "spark/packing.py": "the package for executors, in the directory of the session",
    "spark/plan_files.py": "the plans of one query, in a temporary directory",
    "spark/queries.py": "where the plans of one query are",
    "spark/session.py": "the directory of a session, and the log of its JVM",
    "cli.py": "opens /dev/null",
}
"""Modules outside of `engine/files` that make files for themselves, which no run finds again."""
CHANGING = {
    *("chmod", "chown", "ftruncate", "link", "makedirs", "mkdir", "mkfifo", "mknod", "pwrite", "remove"),
    *(
        "removedirs",
        "removexattr",
        "rename",
        "renames",
        "replace",
        "rmdir",
        "setxattr",
        "symlink",
        "truncate",
    ),
    *("unlink", "utime", "O_CREAT", "O_RDWR", "O_WRONLY"),
    *("copy", "copy2", "copyfile", "copyfileobj", "copytree", "move", "rmtree"),
}


def changes_files(node: ast.AST) -> bool:
    """Whether a piece of code can change files by itself."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = {alias.name for alias in node.names}
        module = getattr(node, "module", None)
        if module in ("os", "shutil"):
            return bool(names & CHANGING)
        return bool({module or "", *names} & {"pathlib", "tempfile"})
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.value.id in ("os", "shutil") and node.attr in CHANGING
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
        modes = [*node.args[1:2], *(word.value for word in node.keywords if word.arg == "mode")]
        return any(not isinstance(mode, ast.Constant) or set("wax+") & set(str(mode.value)) for mode in modes)
    return False


def test_every_write_passes_the_door_to_the_disk() -> None:
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if PACKAGE / "engine" / "files" not in path.parents
        and any(changes_files(node) for node in ast.walk(ast.parse(path.read_text())))
    }
    assert found == set(SCRATCH)


MOST_PARAMETERS, MOST_CALLABLES = 8, 1
LOOPS_OF_THE_KERNEL = {"judge_records", "kept_batches", "append_each"}
"""Said twice, in Python and in Cython, where each column and counter is an argument of its own."""


def is_callable(annotation: ast.expr | None, aliases: set[str]) -> bool:
    """Whether a parameter is a function, or one or nothing."""
    match annotation:
        case ast.Name(id=name):
            return name in aliases
        case ast.Subscript(value=inner):
            return is_callable(inner, aliases)
        case ast.BinOp(left=left, right=right):
            return is_callable(left, aliases) or is_callable(right, aliases)
    return False


def names_of_callables(trees: list[ast.Module]) -> set[str]:
    """`Callable`, and what modules call a kind of it."""
    names, count = {"Callable"}, 0
    while len(names) > count:
        count = len(names)
        for node in (node for tree in trees for node in tree.body):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_callable(value, names):
                    names.add(name)
    return names


def test_no_function_below_the_commands_takes_many_parameters_or_several_functions() -> None:
    trees = {
        path.relative_to(PACKAGE): ast.parse(path.read_text())
        for layer in ("engine", "format", "spark")
        for path in (PACKAGE / layer).rglob("*.py")
    }
    aliases = names_of_callables(list(trees.values()))
    assert {"Watch", "Listing"} & aliases
    found = set()
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                given = [one for one in given if one.arg not in ("self", "cls")]
                callables = [one for one in given if is_callable(one.annotation, aliases)]
                if len(given) > MOST_PARAMETERS or len(callables) > MOST_CALLABLES:
                    found.add(f"{path}: {node.name}")
    assert found == {f"format/kernel/reference.py: {name}" for name in LOOPS_OF_THE_KERNEL}


MOST_LINES, MOST_IMPORTED = 150, 12


def module_of(verb: str) -> Path:
    name = verb.replace("-", "_")
    alone = PACKAGE / "commands" / f"{name}.py"
    return alone if alone.exists() else PACKAGE / "commands" / name / "command.py"


def imported_modules(path: Path) -> set[str]:
    """Modules of the package that a module imports, inside of functions, too."""
    nodes = ast.walk(ast.parse(path.read_text()))
    names = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name for name in names if name.startswith("kafkatool.")}


def test_a_verb_is_options_one_call_rows_and_an_exit_code() -> None:
    large = {
        verb
        for verb in COMMANDS
        if len(module_of(verb).read_text().splitlines()) > MOST_LINES
        or len(imported_modules(module_of(verb))) > MOST_IMPORTED
    }
    assert large == set()


def test_nothing_below_the_commands_is_given_somebody_to_talk_to() -> None:
    """A run yields what there is to say; how far it has come is all that it may tell by a call."""
    told = {"say", "warn", "fail", "note", "talk", "speak"}
    found = {
        f"{path.relative_to(PACKAGE)}: {node.name}"
        for path in (PACKAGE / "engine").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        and told & {one.arg for one in [*node.args.args, *node.args.kwonlyargs]}
    }
    assert found == set()
