"""Installed anew, with and without a C compiler: it works, and says which kernel it uses."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.cli import run
from tests.goldens import FIXTURES

ROOT = Path(__file__).parents[1]
NOT_SOURCES = shutil.ignore_patterns("compiled.c*", "__pycache__")
LOG = next(path for path in sorted(FIXTURES.rglob("00000000000000000000.log")) if path.stat().st_size > 1000)

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a release would hold; nothing that was built here."""
    directory = tmp_path_factory.mktemp("sources")
    shutil.copytree(ROOT / "kafkatool", directory / "kafkatool", ignore=NOT_SOURCES)
    shutil.copytree(ROOT / "man", directory / "man", ignore=NOT_SOURCES)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, directory)
    return directory


class Environment:
    """A new virtual environment."""

    def __init__(self, directory: Path) -> None:
        venv.create(directory, with_pip=True)
        self.programs = directory / "bin"

    def pip(self, *arguments: str, **variables: str) -> None:
        command = [str(self.programs / "python"), "-m", "pip", "--disable-pip-version-check", *arguments]
        done = subprocess.run(
            command, env={**os.environ, **variables}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def kafkatool(self, *arguments: str) -> bytes:
        command = [str(self.programs / "kafkatool"), *arguments]
        path = {"PATH": str(self.programs)}
        return subprocess.run(command, env=path, capture_output=True, check=True).stdout

    def has(self, module: str) -> bool:
        command = [str(self.programs / "python"), "-c", f"import {module}"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def assert_works(environment: Environment) -> None:
    arguments = "dump-log", "--print-data-log", "--files", str(LOG)
    assert environment.kafkatool(*arguments) == run(*arguments).stdout
    assert b"nothing is wrong" in environment.kafkatool("verify", "--deep", str(LOG))


def test_without_a_compiler_it_installs_and_works_in_plain_python(sources: Path, tmp_path: Path) -> None:
    fresh = Environment(tmp_path / "environment")
    fresh.pip("install", str(sources), PATH=str(fresh.programs), CC="/nonexistent/cc", CXX="/nonexistent/cc")
    assert fresh.kafkatool("--version").endswith(b" (kernel: pure Python)\n")
    assert_works(fresh)
    assert_tests_pass(fresh, sources)


def assert_tests_pass(environment: Environment, sources: Path) -> None:
    """Those of what the kernel would do, run on the sources that were installed, where none was built."""
    shutil.copytree(ROOT / "tests", sources / "tests", ignore=NOT_SOURCES)
    environment.pip("install", "pytest", "pytest-xdist", "hypothesis")
    command = [str(environment.programs / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    chosen = ["tests/format", "tests/engine/test_scan.py", "tests/commands/test_dump_log_goldens.py"]
    variables = {"PATH": str(environment.programs), "HOME": str(sources)}
    done = subprocess.run(
        [*command, *chosen], cwd=sources, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:]


def test_a_wheel_brings_its_kernel_along(sources: Path, tmp_path: Path) -> None:
    builder = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path)]
    subprocess.run([*builder, str(sources)], check=True)
    (wheel,) = tmp_path.glob("kafkatool-*.whl")
    names = ZipFile(wheel).namelist()
    assert any(
        name.startswith("kafkatool/format/kernel/compiled.") and name.endswith(".so") for name in names
    )
    fresh = Environment(tmp_path / "environment")
    fresh.pip("install", str(wheel))
    assert not fresh.has("Cython")
    assert (tmp_path / "environment/share/man/man1/kafkatool-verify.1").is_file()
    assert b" (kernel: compiled, CRC by " in fresh.kafkatool("--version")
    assert_works(fresh)
