"""The kernel never touches a byte that is not its own: built with sanitizers, and fuzzed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT

SECONDS = os.environ.get("KAFKATOOL_FUZZ_SECONDS", "600")
SANITIZERS = "-fsanitize=address,undefined"


def build(directory: Path) -> Path:
    """The kernel as it is, with sanitizers that end the program at the first thing they find."""
    flags = {"CFLAGS": f"{SANITIZERS} -fno-sanitize-recover=undefined", "LDFLAGS": SANITIZERS}
    command = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", "lib", "--build-temp", "temp"]
    shutil.copytree(ROOT / "kafkatool", directory / "kafkatool", ignore=shutil.ignore_patterns("compiled.c*"))
    shutil.copy(ROOT / "setup.py", directory)
    subprocess.run(command, cwd=directory, env={**os.environ, **flags}, check=True)
    (kernel,) = (directory / "lib").rglob("compiled.*.so")
    return kernel


def libasan() -> str:
    """Its path: it must be loaded before everything else."""
    command = ["gcc", "-print-file-name=libasan.so"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.soak
def test_no_byte_outside_a_window_is_touched_whatever_is_in_it(tmp_path: Path) -> None:
    if not shutil.which("gcc"):
        pytest.skip("no gcc is here")
    environment = {
        **os.environ,
        "LD_PRELOAD": libasan(),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python keeps much until it ends
        "PYTHONMALLOC": "malloc",
    }
    command = [sys.executable, "-m", "tests.format.fuzz_kernel", str(build(tmp_path)), SECONDS]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-4000:]
    assert " cases from seed " in run.stdout
