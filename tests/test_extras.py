"""Without an extra everything else works, and what needs it names it: one line, exit code 3."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kafkatool.errors import ExitCode
from tests.extras import NEEDING
from tests.transcripts import prepare

# What a core install lacks; `None` makes an import fail as if it were not there.
WITHOUT = "import sys; sys.modules.update(pyarrow=None, pyspark=None); from kafkatool.cli import main; main()"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("without-extras")
    prepare(made)
    return made


@pytest.mark.parametrize("words", NEEDING)
def test_a_command_that_needs_an_extra_names_it(words: str, directory: Path) -> None:
    done = without_extras(words, directory)
    assert (done.returncode, done.stdout) == (ExitCode.FAILED, "")
    said = done.stderr.splitlines()[-1]
    assert f"pip install 'kafkatool[{NEEDING[words]}]'" in said
    assert "should not happen" not in done.stderr


@pytest.mark.parametrize("words", ["export -q -o rows.csv", "stats --deep", "verify --deep"])
def test_what_needs_no_extra_works_without(words: str, directory: Path) -> None:
    assert without_extras(f"{words} sample/orders-0", directory).returncode == ExitCode.OK


def without_extras(words: str, directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT, *words.split()]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
