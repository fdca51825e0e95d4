"""Build the sources and the wheel that are handed out: the same bytes, wherever and whenever it is done.

    python -m release.build sdist|wheel [DIR]

The wheel is built from the sdist, which so proves that it holds enough. Both are made in a copy of what git
knows, since setuptools would take along what an earlier build left behind; and packed anew, since it keeps
the times, owners and permissions of this checkout. The same interpreter, C compiler and `constraints.txt` are
needed for the same bytes; SOURCE_DATE_EPOCH, if set, is the time of every file.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "release" / "constraints.txt"
_NO_SOURCES = shutil.ignore_patterns(
    *("*.so", "compiled.c", "__pycache__", ".venv", "build", "dist", ".*_cache", ".hypothesis"),
    *("*.egg-info", "setup.cfg", "PKG-INFO"),  # which setuptools writes into an sdist
)


def build(what: str, target: Path) -> list[Path]:
    """The files that were made there: the sdist, and unless it is all that is wanted, the wheel."""
    moment = epoch()
    with tempfile.TemporaryDirectory() as name:
        sources, made = Path(name, "sources"), Path(name, "made")
        copy_sources(sources)
        command = [sys.executable, "-m", "build", "--outdir", str(made), str(sources)]
        only = ["--sdist"] if what == "sdist" else []
        _run([*command, *only], _environment(moment, sources))
        target.mkdir(parents=True, exist_ok=True)
        for path in made.glob("*.whl"):
            _pack_wheel(path, target / path.name, moment)
        for path in made.glob("*.tar.gz"):
            with tarfile.open(path) as archive:
                archive.extractall(name, filter="data")
            pack(Path(name, path.name.removesuffix(".tar.gz")), target / path.name, moment)
        return sorted(target / path.name for path in made.iterdir())


def epoch() -> int:
    """The time that every file gets: that of the last commit; in an unpacked sdist, that of its files."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    if _in_git():
        return int(_git("log", "-1", "--format=%ct"))
    return int((ROOT / "PKG-INFO").stat().st_mtime)


def copy_sources(target: Path) -> None:
    """What a release is made from, and nothing that was built here."""
    if not _in_git():
        shutil.copytree(ROOT, target, ignore=_NO_SOURCES)
        return
    for name in filter(None, _git("ls-files", "-z").split("\0")):
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy)


def pack(directory: Path, target: Path, moment: int) -> None:
    """The directory as a .tar.gz, in the order of its names, of nobody in particular."""
    parent = directory.parent

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = moment
        member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        return member

    with (
        open(target, "wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=moment) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in [directory, *sorted(directory.rglob("*"))]:
            archive.add(path, str(path.relative_to(parent)), recursive=False, filter=plain)


def _pack_wheel(wheel: Path, target: Path, moment: int) -> None:
    with ZipFile(wheel) as old, ZipFile(target, "w", ZIP_DEFLATED) as new:
        for entry in old.infolist():
            plain = ZipInfo(entry.filename, time.gmtime(moment)[:6])
            plain.compress_type = ZIP_DEFLATED
            is_program = (entry.external_attr >> 16) & 0o100
            plain.external_attr = (0o100755 if is_program else 0o100644) << 16
            new.writestr(plain, old.read(entry))


def _environment(moment: int, sources: Path) -> dict[str, str]:
    """Some interpreters would link their own path into everything they build: hence LDSHARED.

    pip takes a blank in its variable for the end of a path. There is none in that of a temporary directory.
    """
    compiler = os.environ.get("CC", "cc")
    constraints = sources / CONSTRAINTS.relative_to(ROOT)
    given = {"SOURCE_DATE_EPOCH": str(moment), "PIP_CONSTRAINT": str(constraints)}
    return {"LDSHARED": f"{compiler} -shared -Wl,-s", **os.environ, **given}


def _run(command: list[str], variables: dict[str, str]) -> None:
    """Quietly, unless it fails."""
    done = subprocess.run(
        command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if done.returncode:
        sys.stderr.buffer.write(done.stdout)
        raise SystemExit(f"{' '.join(command)} failed")


def _in_git() -> bool:
    return (ROOT / ".git").exists()


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True
    ).stdout


def main() -> None:
    what = sys.argv[1]
    for path in build(what, Path(sys.argv[2] if len(sys.argv) > 2 else "dist")):
        print(path)


if __name__ == "__main__":
    main()
