"""The README's first commands on a machine that knows nothing of us: a new clone, a new home, nothing set."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT


def first_commands() -> list[str]:
    """What the README tells everybody to type first."""
    block = re.search(r"^```sh\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert block is not None
    return block[1].splitlines()


def test_the_readme_begins_with_a_command_that_shows_and_one_that_tests() -> None:
    assert first_commands() == ["make demo", "make test"]
    assert "make test" in (ROOT / ".ci" / "run").read_text()  # which so runs the second on a clone


@pytest.mark.soak
def test_the_first_of_them_sets_all_up_and_shows_the_commands(tmp_path: Path) -> None:
    if shutil.which("make") is None or not (ROOT / ".git").exists():
        pytest.skip("there is no make, or this is no clone")
    clone, home = tmp_path / "clone", tmp_path / "home"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    home.mkdir()
    path = os.pathsep.join([str(Path(sys.executable).resolve().parent), "/usr/local/bin", "/usr/bin", "/bin"])
    done = subprocess.run(
        first_commands()[0].split(),
        cwd=clone,
        env={"HOME": str(home), "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    for command in ("ls", "doctor", "verify", "recover", "serve", "report"):
        assert f"kafkatool {command} " in done.stdout
