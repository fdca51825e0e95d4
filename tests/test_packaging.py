"""Installed anew, with and without a C compiler, on every Python: it works, and says which kernel it uses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from kafkatool.errors import ExitCode
from release.build import ROOT, build
from tests.extras import NEEDING
from tests.smoke import assert_works

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = ("3.11", "3.12", "3.13")
MOST_OF_A_CORE_INSTALL = 150_000_000
OF_THE_INSTALLER = ("pip", "setuptools", "_distutils_hack", "pkg_resources")

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("packaging")]


class Environment:
    """A new virtual environment."""

    def __init__(self, directory: Path, python: str = sys.executable) -> None:
        subprocess.run([python, "-m", "venv", directory], check=True)
        self.directory = directory
        self.programs = directory / "bin"

    def pip(self, *arguments: str, **variables: str) -> None:
        command = [
            str(self.programs / "python"),
            "-I",
            "-m",
            "pip",
            "--disable-pip-version-check",
            *arguments,
        ]
        done = subprocess.run(
            command, env={**os.environ, **variables}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def install_without_a_compiler(self, *what: str) -> None:
        self.pip("install", *what, PATH=str(self.programs), CC="/nonexistent/cc", CXX="/nonexistent/cc")

    def run(self, arguments: list[str], directory: Path | None = None) -> subprocess.CompletedProcess[bytes]:
        command = [str(self.programs / "kafkatool"), *arguments]
        variables = {"PATH": str(self.programs)}
        return subprocess.run(command, cwd=directory, env=variables, capture_output=True, check=False)

    @property
    def version(self) -> str:
        return self.run(["--version"]).stdout.decode()

    def has(self, module: str) -> bool:
        command = [str(self.programs / "python"), "-I", "-c", f"import {module}"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel and an sdist, built once."""
    directory = tmp_path_factory.mktemp("made")
    build("wheel", directory)
    return directory


@pytest.fixture(scope="module")
def wheel(made: Path) -> Path:
    (found,) = made.glob("kafkatool-*.whl")
    return found


@pytest.fixture(scope="module")
def sdist(made: Path) -> Path:
    (found,) = made.glob("kafkatool-*.tar.gz")
    return found


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel and what it needs, without any extra."""
    fresh = Environment(tmp_path_factory.mktemp("core"))
    fresh.install_without_a_compiler(str(wheel))
    return fresh


def unpacked(sdist: Path, target: Path) -> Path:
    with tarfile.open(sdist) as archive:
        archive.extractall(target, filter="data")
    return target / sdist.name.removesuffix(".tar.gz")


# --- the wheel ----------------------------------------------------------------------------------------


def test_a_wheel_brings_its_kernel_and_man_pages_along_and_works(core: Environment, tmp_path: Path) -> None:
    assert not core.has("Cython")
    share = core.directory / "share"
    assert (share / "man/man1/kafkatool-verify.1").is_file()
    assert (share / "bash-completion/completions/kafkatool.bash").is_file()
    assert (share / "zsh/site-functions/_kafkatool").is_file()
    assert (share / "fish/vendor_completions.d/kafkatool.fish").is_file()
    assert " (kernel: compiled, CRC by " in core.version
    assert_works(lambda arguments: core.run(arguments, tmp_path), tmp_path)


def test_python_dash_m_is_the_same_program(core: Environment) -> None:
    command = [str(core.programs / "python"), "-I", "-m", "kafkatool", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == core.version


def test_a_core_install_stays_small(core: Environment) -> None:
    (packages,) = core.directory.glob("lib/python*/site-packages")
    sizes = {
        path.name: sum(file.stat().st_size for file in [path, *path.rglob("*")] if file.is_file())
        for path in packages.iterdir()
        if not path.name.startswith(OF_THE_INSTALLER)
    }
    print({name: size for name, size in sizes.items() if size > 1 << 20}, sum(sizes.values()))
    assert sum(sizes.values()) < MOST_OF_A_CORE_INSTALL, sizes


@pytest.mark.parametrize("words", NEEDING)
def test_a_core_install_names_the_extra_that_a_command_needs(
    words: str, core: Environment, tmp_path: Path
) -> None:
    script = str(ROOT / "examples" / "sample_log_dir.py")
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, script, str(tmp_path / "sample")], env=variables, check=True)
    done = core.run(words.split(), tmp_path)
    assert done.returncode == ExitCode.FAILED
    assert f"pip install 'kafkatool[{NEEDING[words]}]'" in done.stderr.decode().splitlines()[-1]


def test_the_wheel_holds_no_sources_of_the_kernel(wheel: Path) -> None:
    names = ZipFile(wheel).namelist()
    assert not [name for name in names if name.endswith((".pyx", ".pxi", ".c", ".h"))]
    (kernel,) = [name for name in names if name.endswith(".so")]
    assert kernel.startswith("kafkatool/format/kernel/compiled.")
    assert str(Path.home()).encode() not in ZipFile(wheel).read(kernel)
    assert sys.base_prefix.encode() not in ZipFile(wheel).read(kernel)


# --- the sources --------------------------------------------------------------------------------------


def test_another_directory_umask_and_time_give_the_same_bytes(made: Path, tmp_path: Path) -> None:
    """From the sdist, where there is no git, to the same sdist and the same wheel."""
    (sdist,) = made.glob("*.tar.gz")
    umask = os.umask(0o077)
    try:
        sources = unpacked(sdist, tmp_path / "in" / "another place")
        command = [sys.executable, "-m", "release.build", "wheel", str(tmp_path / "again")]
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        subprocess.run(command, cwd=sources, env=variables, check=True)
    finally:
        os.umask(umask)
    assert {path.name: path.read_bytes() for path in made.iterdir()} == {
        path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()
    }


def test_without_a_compiler_the_sources_install_and_pass_in_plain_python(sdist: Path, tmp_path: Path) -> None:
    fresh = Environment(tmp_path / "environment")
    fresh.install_without_a_compiler(str(sdist))
    assert fresh.version.endswith(" (kernel: pure Python)\n")
    (tmp_path / "work").mkdir()
    assert_works_but_for_the_kernel(fresh, tmp_path / "work")
    assert_tests_pass(fresh, unpacked(sdist, tmp_path))


def assert_works_but_for_the_kernel(environment: Environment, directory: Path) -> None:
    def run(arguments: list[str]) -> subprocess.CompletedProcess[bytes]:
        done = environment.run(arguments, directory)
        if arguments == ["--version"]:
            done.stdout = subprocess.run(
                [sys.executable, "-m", "kafkatool", "--version"], capture_output=True, check=True
            ).stdout
        return done

    assert_works(run, directory)


def assert_tests_pass(environment: Environment, sources: Path) -> None:
    """Those of what the kernel would do, run on the sources that were installed, where none was built."""
    environment.pip("install", "pytest", "pytest-xdist", "hypothesis")
    command = [str(environment.programs / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    chosen = ["tests/format", "tests/engine/batches/test_scan.py", "tests/commands/dump_log/test_goldens.py"]
    variables = {"PATH": str(environment.programs), "HOME": str(sources)}
    done = subprocess.run(
        [*command, *chosen], cwd=sources, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:]


# --- every Python -------------------------------------------------------------------------------------


def runs_as(version: str) -> str | None:
    """A Python of this version, if there is one: on the PATH, or among pyenv's."""
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for python in filter(None, [shutil.which(f"python{version}"), *map(str, pyenv)]):
        told = subprocess.run([python, "-V"], capture_output=True, text=True, check=False).stdout
        if told.startswith(f"Python {version}."):
            return python
    return None


@pytest.mark.parametrize("version", PYTHONS[1:])
def test_every_python_installs_the_sources_without_a_compiler(
    version: str, sdist: Path, tmp_path: Path
) -> None:
    python = runs_as(version)
    if python is None:
        pytest.skip(f"there is no Python {version}")
    fresh = Environment(tmp_path / "environment", python)
    fresh.install_without_a_compiler(str(sdist))
    (tmp_path / "work").mkdir()
    assert_works_but_for_the_kernel(fresh, tmp_path / "work")


def resolved(version: str, requirements: list[str], target: Path) -> Iterator[str]:
    """What pip would install for that Python, of wheels alone; nothing is installed."""
    command = [sys.executable, "-I", "-m", "pip", "install", "--dry-run", "--quiet", "--report", "-"]
    where = ["--ignore-installed", "--target", str(target), "--python-version", version]
    done = subprocess.run(
        [*command, *where, "--only-binary", ":all:", *requirements],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for one in json.loads(done.stdout)["install"]:
        yield one["download_info"]["url"].rpartition("/")[2]


@pytest.mark.parametrize("version", PYTHONS)
@pytest.mark.parametrize("extra", ["", "arrow"])
def test_all_that_it_needs_comes_as_wheels(version: str, extra: str, tmp_path: Path) -> None:
    more = PROJECT["optional-dependencies"][extra] if extra else []
    found = list(resolved(version, [*PROJECT["dependencies"], *more], tmp_path))
    print(version, extra or "core", found)
    assert all(name.endswith(".whl") for name in found)
    assert len(found) >= len(PROJECT["dependencies"]) + len(more)
