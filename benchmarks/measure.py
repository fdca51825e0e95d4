"""Run programs in turns and keep what the kernel says of each: wall time and peak memory."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple


class Sample(NamedTuple):
    seconds: float
    peak_bytes: int


class Contest(NamedTuple):
    """Medians over all rounds."""

    ours: Sample
    theirs: Sample

    @property
    def ratio(self) -> float:
        return self.theirs.seconds / self.ours.seconds


def run_once(command: Sequence[str]) -> Sample:
    """One process, its output thrown away, start-up included."""
    # An installed package has its bytecode; so has this one after the first run.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    return Sample(seconds, usage.ru_maxrss * 1024)


def contest(ours: Sequence[str], theirs: Sequence[str], rounds: int) -> Contest:
    """Alternating rounds, so that a busy moment hits both."""
    run_once(ours)
    samples: dict[str, list[Sample]] = {"ours": [], "theirs": []}
    for _ in range(rounds):
        samples["theirs"].append(run_once(theirs))
        samples["ours"].append(run_once(ours))
    return Contest(_median(samples["ours"]), _median(samples["theirs"]))


def repeat(command: Sequence[str], rounds: int) -> Sample:
    return _median([run_once(command) for _ in range(rounds)])


def _median(samples: list[Sample]) -> Sample:
    return Sample(median(s.seconds for s in samples), max(s.peak_bytes for s in samples))
