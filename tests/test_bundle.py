"""The bundle runs where there is nothing: no Python, no C library, no shell; as root and as anybody else."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tomllib
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from release.build import ROOT, build
from release.bundle import bundle
from tests.smoke import assert_works
from tests.transcripts import mask, prepare, replay, transcripts

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("packaging")]

# They write Parquet, which is not part of it.
NEED_ARROW = {
    "export.md",
    "pipeline-collect.md",
    "pipeline-report.md",
    "pipeline-run.md",
    "sql.md",
    "tour.md",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (made,) = (path for path in build("wheel", tmp_path_factory.mktemp("wheel")) if path.suffix == ".whl")
    return made


@pytest.fixture(scope="module")
def home(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle, unpacked."""
    directory = tmp_path_factory.mktemp("bundle")
    made = bundle(wheel, directory, [])
    with tarfile.open(made) as archive:
        archive.extractall(directory / "unpacked", filter="data")
    return directory / "unpacked" / made.name.removesuffix(".tar.gz")


@pytest.mark.parametrize("user", [0, 4711])
def test_it_runs_in_a_root_that_holds_nothing_else(user: int, home: Path, tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root may change the root")
    root = tmp_path / "root"
    (root / "proc").mkdir(parents=True)
    shutil.copytree(home, root / "opt", symlinks=True)

    def run(arguments: list[str]) -> subprocess.CompletedProcess[bytes]:
        namespace = ["unshare", "--pid", "--fork", f"--mount-proc={root / 'proc'}"]
        inside = ["chroot", f"--userspec={user}:{user}", str(root), "/opt/bin/kafkatool", *arguments]
        variables = {"LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"]}
        return subprocess.run([*namespace, *inside], env=variables, capture_output=True, check=False)

    assert b"(kernel: compiled" in run(["--version"]).stdout
    assert_works(run, root)


def test_every_transcript_comes_out_the_same(home: Path, tmp_path: Path) -> None:
    prepare(tmp_path, [home / "bin" / "kafkatool"])
    for path in transcripts():
        if path.name not in NEED_ARROW:
            text = path.read_text()
            assert mask(replay(text, tmp_path)) == mask(text), path.name


def test_the_one_with_arrow_writes_parquet(wheel: Path, tmp_path: Path) -> None:
    prepare(tmp_path)
    made = bundle(wheel, tmp_path, ["arrow"])
    program = tmp_path / made.name.removesuffix(".tar.gz") / "bin" / "kafkatool"
    for words in (
        "export -q -o rows.parquet sample/orders-0",
        "pipeline collect -q --output part sample/orders-0",
    ):
        done = subprocess.run([str(program), *words.split()], cwd=tmp_path, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b""), words
    assert pq.read_table(tmp_path / "rows.parquet").num_rows == 11
    assert (tmp_path / "part").is_dir()


def test_a_link_to_it_works_from_anywhere(home: Path, tmp_path: Path) -> None:
    (tmp_path / "kafkatool").symlink_to(home / "bin" / "kafkatool")
    done = subprocess.run(
        ["kafkatool", "--version"], env={"PATH": str(tmp_path)}, capture_output=True, check=True
    )
    assert done.stdout.startswith(b"kafkatool ")


def test_programs_that_it_starts_find_their_own_libraries(home: Path, tmp_path: Path) -> None:
    decoder = tmp_path / "decoder"
    decoder.write_text('#!/bin/sh\necho "[${LD_LIBRARY_PATH-unset}]" >&2\nexec cat\n')
    decoder.chmod(0o755)
    prepare(tmp_path)
    command = [str(home / "bin" / "kafkatool"), "cat", "--decoder", str(decoder), "sample/payments-0"]
    for given, expected in ({}, b"[unset]"), ({"LD_LIBRARY_PATH": "/of/the/user"}, b"[/of/the/user]"):
        variables = {"PATH": os.environ["PATH"], **given}
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, check=True)
        assert done.stdout == b"12.50\n99.00\n"
        assert expected in done.stderr


def test_it_brings_all_that_the_wheel_installs_beside_the_package_and_licences(home: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for place, patterns in project["tool"]["setuptools"]["data-files"].items():
        expected = {path.name for pattern in patterns for path in ROOT.glob(pattern)}
        assert expected == {path.name for path in (home / place).iterdir()}
    assert (home / "licenses" / "Python.txt").is_file()
    assert "numpy" in (home / "licenses" / "versions.txt").read_text()
