"""Base offsets at both ends of what a name can hold: nothing overflows, with or without the kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from tests.logs import TIME, write_log

HIGHEST = (1 << 63) - 1
LOWEST = -(1 << 63)


def runs(*arguments: str) -> list[tuple[int, str, str]]:
    """The exit code and all that is printed, with either kernel."""
    command = [sys.executable, "-m", "kafkatool", *arguments]
    done = [
        subprocess.run(
            command, env={**os.environ, "KAFKATOOL_PURE": pure}, capture_output=True, text=True, check=False
        )
        for pure in ("0", "1")
    ]
    return [(one.returncode, one.stdout, one.stderr) for one in done]


@pytest.mark.long
@pytest.mark.parametrize("base", [HIGHEST, HIGHEST - 1, HIGHEST - 4000, -1, -5, LOWEST + 1, LOWEST])
def test_a_log_at_the_end_of_all_offsets_is_verified_and_shown(tmp_path: Path, base: int) -> None:
    stem = f"{'-' if base < 0 else ''}{abs(base):020d}"
    rows = [NewRecord(b"k", b"v", TIME)]
    log = write_log(tmp_path / "t-0", write_batch(rows, base_offset=base), f"{stem}.log")
    for suffix, entry in ((".index", bytes(8)), (".timeindex", bytes(12))):
        log.with_suffix(suffix).write_bytes(entry)
    for arguments in (
        ("verify", "--deep", str(tmp_path / "t-0")),
        ("dump-log", "--files", str(log)),
        ("dump-log", "--print-data-log", "--files", str(log)),
    ):
        (code, text, told), pure = runs(*arguments)
        assert (code, text, told) == pure
        assert text
        assert "should not happen" not in told
