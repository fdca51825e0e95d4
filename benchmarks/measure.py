"""Run programs in turns and record the wall time of each, and its peak memory according to the kernel."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple


class Sample(NamedTuple):
    seconds: float
    peak_bytes: int


class Program(NamedTuple):
    """A program to be timed. With `tells_time` it prints its seconds itself: start-up is not counted."""

    command: Sequence[str]
    tells_time: bool = False
    environment: tuple[tuple[str, str], ...] = ()

    def run(self) -> Sample:
        # An installed package has its bytecode; so has this one after the first run.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment.update(self.environment)
        output = subprocess.PIPE if self.tells_time else subprocess.DEVNULL
        start = time.perf_counter()
        process = subprocess.Popen(self.command, stdout=output, stderr=subprocess.DEVNULL, env=environment)
        told = process.stdout.read() if process.stdout is not None else b""
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"{' '.join(self.command)}: exit code {process.returncode}")
        return Sample(float(told) if self.tells_time else seconds, usage.ru_maxrss * 1024)


Runner = Callable[[], Sample]


def together(*programs: Program) -> Runner:
    """Run several programs one after another, as one."""

    def run() -> Sample:
        samples = [program.run() for program in programs]
        return Sample(sum(one.seconds for one in samples), max(one.peak_bytes for one in samples))

    return run


def repeated(program: Program, times: int) -> Runner:
    """Run a program, and report the time that doing its work this many times would take."""

    def run() -> Sample:
        sample = program.run()
        return Sample(sample.seconds * times, sample.peak_bytes)

    return run


class Times(NamedTuple):
    """The rounds of one side."""

    samples: tuple[Sample, ...]

    @property
    def seconds(self) -> float:
        return median(sample.seconds for sample in self.samples)

    @property
    def spread(self) -> tuple[float, float]:
        return min(s.seconds for s in self.samples), max(s.seconds for s in self.samples)

    @property
    def peak_bytes(self) -> int:
        return max(sample.peak_bytes for sample in self.samples)


def contest(runners: Sequence[Runner], rounds: int) -> list[Times]:
    """Run all in turn, round after round, so that a busy moment affects all of them."""
    samples: list[list[Sample]] = [[] for _ in runners]
    for _ in range(rounds):
        for runner, taken in zip(runners, samples, strict=True):
            taken.append(runner())
    return [Times(tuple(taken)) for taken in samples]
