"""Build the bundle for hosts without Python: an interpreter, kafkatool, all they need, even the C library.

    python -m release.bundle DIR [EXTRA...]

It runs on any Linux of this machine's architecture, as old as the kernel that its C library asks for, with or
without a C library of its own.

    kafkatool-VERSION-linux-x86_64/
        bin/kafkatool       starts lib/program; links to it may lie anywhere
        lib/                PyInstaller's one-directory layout, and the C library with its loader
        share/              what the wheel installs there: man pages, for one, where `man` looks beside bin/
        licenses/           of everything in lib/, with versions.txt
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

from release.build import CONSTRAINTS, ROOT, build, epoch, pack

HERE = ROOT / "release"
EXCLUDED = (
    # A second back end of zstandard, as large as the first.
    *("zstandard._cffi", "zstandard.backend_cffi", "cffi"),
    # What only development needs, or nothing here does.
    *("readline", "unittest", "doctest", "setuptools", "pip"),
    *("numpy.f2py", "numpy.testing", "pyarrow.tests"),
)
BY_NAME = ("lz4.block", "lz4.frame", "snappy.snappy")
"""What kafkatool imports of others without an import statement."""


def bundle(wheel: Path, target: Path, extras: list[str]) -> Path:
    """The .tar.gz that was made there, beside the directory that it holds."""
    version = wheel.name.split("-")[1]
    name = "-".join(["kafkatool", version, f"linux-{platform.machine()}", *extras])
    with tempfile.TemporaryDirectory() as scratch:
        environment, home = Path(scratch, "environment"), Path(scratch, name)
        wanted = f"[{','.join(extras)}]" if extras else ""
        python = _install(f"{wheel.resolve()}{wanted}", environment)
        _freeze(python, Path(scratch), home / "lib")
        loader = _add_c_library(home / "lib")
        _compile_launcher(loader, home / "bin" / "kafkatool")
        shutil.copytree(environment / "share", home / "share")
        _add_licenses(environment, home / "licenses")
        shutil.copy(ROOT / "LICENSE", home)
        target.mkdir(parents=True, exist_ok=True)
        pack(home, target / f"{name}.tar.gz", epoch())
        shutil.rmtree(target / name, ignore_errors=True)
        shutil.move(home, target)
    return target / f"{name}.tar.gz"


def _install(requirement: str, environment: Path) -> Path:
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    pip = [str(python), "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    chosen = ["--constraint", str(CONSTRAINTS), "--only-binary", ":all:"]
    subprocess.run([*pip, *chosen, requirement, "pyinstaller"], check=True)
    return python


def _freeze(python: Path, scratch: Path, library: Path) -> None:
    """Python, kafkatool and their libraries, as far as PyInstaller takes them: all but the C library."""
    variables = {**os.environ, "PYTHONHASHSEED": "0", "SOURCE_DATE_EPOCH": str(epoch())}
    command = [str(python), "-I", "-m", "PyInstaller", "--log-level", "ERROR", str(HERE / "bundle.spec")]
    subprocess.run(command, cwd=scratch, env=variables, check=True)
    shutil.move(scratch / "dist" / "program", library)
    _strip(library)


def _strip(library: Path) -> None:
    """Leave out what is for debuggers, a third of all. What wheels keep in *.libs would not survive that."""
    binaries = [path for path in _binaries(library) if not path.parent.name.endswith(".libs")]
    subprocess.run(["strip", "--strip-debug", *binaries], check=True)


def modules() -> list[str]:
    """Every module of kafkatool: commands, schemas and requests are imported by name, when asked for."""
    paths = (path.relative_to(ROOT).with_suffix("") for path in (ROOT / "kafkatool").rglob("*.py"))
    return sorted(".".join(path.parts).removesuffix(".__init__") for path in paths)


def _binaries(library: Path) -> list[Path]:
    named = (path for path in library.rglob("*.so*") if re.search(r"\.so(\.\d+)*$", path.name))
    return sorted(path for path in named if path.is_file() and not path.is_symlink())


def _add_c_library(library: Path) -> str:
    """What is still missing; the name of the loader."""
    binaries = [library / "program", *_binaries(library)]
    for path in {found for binary in binaries for found in _linked(binary, library)}:
        if not (library / path.name).exists():
            shutil.copy(path, library)
    (loader,) = library.glob("ld-*.so.*")
    loader.chmod(0o755)
    return loader.name


def _linked(binary: Path, library: Path) -> Iterator[Path]:
    variables = {**os.environ, "LD_LIBRARY_PATH": str(library)}
    told = subprocess.run(["ldd", binary], env=variables, capture_output=True, text=True, check=True).stdout
    for found in re.findall(r"(/\S+) \(0x", told):
        if not Path(found).is_relative_to(library):
            yield Path(found)


def _compile_launcher(loader: str, target: Path) -> None:
    target.parent.mkdir()
    compiler = [os.environ.get("CC", "cc"), "-static", "-Os", "-s", "-Wall", "-Werror"]
    source = HERE / "launcher.c"
    subprocess.run([*compiler, f'-DLOADER="{loader}"', "-o", target, source], check=True)


def _add_licenses(environment: Path, target: Path) -> None:
    """The licences that came with every package, and which versions these are."""
    versions = [f"Python {platform.python_version()}", " ".join(platform.libc_ver())]
    for metadata in sorted(environment.glob("lib/python*/site-packages/*.dist-info")):
        name, version = metadata.name.removesuffix(".dist-info").split("-")
        versions.append(f"{name} {version}")
        for path in sorted(metadata.rglob("*")):
            if re.match("(?i)licen[sc]e|copying|notice", path.name) and path.is_file():
                copy = target / name / path.relative_to(metadata)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)
    shutil.copy(Path(sysconfig.get_path("stdlib"), "LICENSE.txt"), target / "Python.txt")
    (target / "versions.txt").write_text("\n".join(versions) + "\n")


def main() -> None:
    target, extras = Path(sys.argv[1]), sys.argv[2:]
    (wheel,) = (path for path in build("wheel", target) if path.suffix == ".whl")
    print(bundle(wheel, target, extras))


if __name__ == "__main__":
    main()
