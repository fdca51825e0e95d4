"""What a release consists of is complete: nothing that is imported, tracked or promised is left out of it."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache

import pytest

from kafkatool.cli import COMMANDS
from kafkatool.errors import EXTRAS
from release import bundle
from release.build import CONSTRAINTS, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
BY_ANOTHER_NAME = {"python-snappy": "snappy"}
ALWAYS_IN_AN_SDIST = {"pyproject.toml", "MANIFEST.in"}


@cache
def nodes() -> list[ast.AST]:
    """Everything that stands in kafkatool and may name a module."""
    found = (ast.walk(ast.parse(path.read_bytes())) for path in (ROOT / "kafkatool").rglob("*.py"))
    return [node for one in found for node in one if isinstance(node, ast.Import | ast.ImportFrom | ast.Call)]


def imported() -> Iterator[str]:
    """Every module that an import statement names, wherever it stands."""
    for node in nodes():
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=!~;\[ ]", text)[0] for text in requirements}


WITH_AN_EXTRA = {"py4j"}
"""Part of what pyspark is: its bridge to the JVM."""


def test_every_dependency_is_declared_and_every_one_declared_is_used() -> None:
    tops = {name.partition(".")[0] for name in imported()} - sys.stdlib_module_names - {"kafkatool"}
    by_name = {name.partition(".")[0] for name in bundle.BY_NAME}
    core = {BY_ANOTHER_NAME.get(name, name) for name in names(PROJECT["project"]["dependencies"])}
    assert (tops | by_name) - set(EXTRAS) - WITH_AN_EXTRA == core


def test_every_extra_that_is_named_to_people_brings_its_package() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    for package, extra in EXTRAS.items():
        assert package in names(extras[extra])


def test_the_bundle_knows_every_module_that_is_imported_by_name() -> None:
    assert {f"kafkatool.commands.{name.replace('-', '_')}" for name in COMMANDS} <= set(bundle.modules())
    of_others = {BY_ANOTHER_NAME.get(name, name) for name in names(PROJECT["project"]["dependencies"])}
    found = {
        str(node.args[0].value)
        for node in nodes()
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)
    }
    dotted = {
        name for name in found if re.fullmatch(r"\w+(\.\w+)+", name) and name.split(".")[0] in of_others
    }
    assert dotted == set(bundle.BY_NAME)


def test_the_bundle_leaves_out_nothing_that_kafkatool_imports() -> None:
    for name in imported():
        assert not any(name == left or name.startswith(f"{left}.") for left in bundle.EXCLUDED)


def test_the_versions_of_a_release_are_pinned() -> None:
    pinned = {line.split("==")[0] for line in CONSTRAINTS.read_text().splitlines() if "==" in line}
    core, arrow = PROJECT["project"]["dependencies"], PROJECT["project"]["optional-dependencies"]["arrow"]
    assert names([*PROJECT["build-system"]["requires"], *core, *arrow, "pyinstaller"]) <= pinned


def test_the_sdist_holds_everything_that_git_does() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("there is no git to ask")
    tracked = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True)
    lines = [line.split() for line in (ROOT / "MANIFEST.in").read_text().splitlines() if line]
    grafted = {word for line in lines for word in line[1:] if line[0] == "graft"}
    patterns = [word for line in lines for word in line[1:] if line[0] == "include"]
    for path in tracked.stdout.splitlines():
        top, _, rest = path.partition("/")
        known = top in grafted if rest else any(fnmatch(top, one) for one in patterns)
        assert known or top in ALWAYS_IN_AN_SDIST, path


# --- the image ----------------------------------------------------------------------------------------


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines if line)]


def test_the_image_runs_as_somebody_who_is_not_root() -> None:
    last_stage = max(number for number, (word, _) in enumerate(instructions()) if word == "FROM")
    users = [rest for word, rest in instructions()[last_stage:] if word == "USER"]
    assert users == ["1000:1000"]


def test_the_image_is_built_from_names_without_a_host_and_never_from_the_latest() -> None:
    for image in (rest.split()[0] for word, rest in instructions() if word == "FROM"):
        assert "/" not in image
        assert ":" in image
        assert "latest" not in image


def test_what_the_image_is_built_from_is_sent_to_its_builder() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    data = {
        pattern.split("/")[0]
        for found in PROJECT["tool"]["setuptools"]["data-files"].values()
        for pattern in found
    }
    needed = {
        "kafkatool",
        "pyproject.toml",
        "setup.py",
        "README.md",
        "LICENSE",
        "release/constraints.txt",
        *data,
    }
    assert {f"!{name}" for name in needed} <= set(ignored)


# --- the recipe ---------------------------------------------------------------------------------------


def test_the_container_of_the_recipe_reads_only_and_is_not_root() -> None:
    text = (ROOT / "docs" / "kubernetes.md").read_text()
    (block,) = re.findall(r"^cat > kafkatool-debug.json <<'END'\n(.*?)^END$", text, re.MULTILINE | re.DOTALL)
    container = json.loads(block)
    assert all(mount["readOnly"] for mount in container["volumeMounts"])
    assert container["securityContext"]["runAsNonRoot"]
