"""Print the table of ratios: `python -m benchmarks [--quick] [--part NAME] [--only REGEX]`.

Exit with 1 if a promise is not kept. Inputs are made once and kept in the cache. kafkatool and its peer run
in turns, each with the log in the page cache. Times are medians of all rounds, followed by the fastest and
the slowest. With --quick most of the time is start-up, so promises are not checked.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from benchmarks.data import Inputs
from benchmarks.measure import Times, contest
from benchmarks.table import PARTS, Comparison, Row, comparisons, help_time
from kafkatool import __version__
from kafkatool.format import kernel
from tests.kafka.peers import cache_dir

HELP_LIMIT = 0.2
HEADING = "| job | against | theirs | ours | ratio | promised | peak memory |\n|---|---|---|---|---|---|---|"


def main() -> int:
    chosen = _options()
    inputs = Inputs(chosen.data, (64 << 20) if chosen.quick else chosen.size << 20)
    rounds = 1 if chosen.quick else chosen.rounds
    made = f"Made by `python -m benchmarks --size {inputs.size >> 20} --rounds {rounds}`."
    lines = [*_machine(inputs.size, rounds), "", HEADING]
    print("\n".join(lines), flush=True)
    kept = True
    with ExitStack() as cleanup:
        for line, keeps in _rows(chosen, comparisons(inputs, cleanup, chosen.part or ()), rounds):
            print(line, flush=True)
            lines.append(line)
            kept = kept and keeps
            if chosen.results:  # after each row, so that an interrupt loses nothing
                chosen.results.write_text("\n".join(["# The table of ratios", "", made, "", *lines, ""]))
    return 0 if chosen.quick or kept else 1


def _rows(chosen: argparse.Namespace, every: Iterator[Comparison], rounds: int) -> Iterator[tuple[str, bool]]:
    """Yield the lines of the table, and whether each keeps what is promised."""
    yield _help(max(rounds, 5))
    for comparison in every:
        rows = [row for row in comparison.rows if re.search(chosen.only, f"{row.title}, {comparison.peer}")]
        yield from _measure(comparison._replace(rows=rows), rounds)


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    options.add_argument("--quick", action="store_true", help="small logs, one round, promises not checked")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--size", type=int, default=1024, metavar="MIB", help="size of the logs")
    options.add_argument("--part", choices=PARTS, action="append", help="only this part; may be repeated")
    options.add_argument("--only", default="", metavar="REGEX", help="only rows that match")
    options.add_argument("--data", type=Path, default=cache_dir() / "benchmarks")
    options.add_argument("--results", type=Path, metavar="FILE", help="write the table here too")
    return options.parse_args()


def _machine(size: int, rounds: int) -> Iterator[str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    yield f"- kafkatool {__version__}, kernel: {kernel.name()}; Python {platform.python_version()}"
    yield f"- {_cpu()}, {os.cpu_count()} cores, {memory} GiB; {platform.system()} {platform.release()}"
    yield f"- logs of {size >> 20} MiB, 100-byte values, in the page cache"
    yield f"- {rounds} alternating rounds: medians (fastest to slowest)"
    yield "- start-up is counted if the peer is a program or a number of jobs, otherwise on neither side"


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _measure(comparison: Comparison, rounds: int) -> Iterator[tuple[str, bool]]:
    if comparison.rows:
        theirs, *ours = contest([comparison.run, *(row.run for row in comparison.rows)], rounds)
        for row, times in zip(comparison.rows, ours, strict=True):
            yield _line(row, comparison.peer, times, theirs)


def _line(row: Row, peer: str, ours: Times, theirs: Times) -> tuple[str, bool]:
    share = ours.seconds / theirs.seconds
    if row.within is not None:
        least = 1 / row.within
        ratio, promised = f"{share:.2f} of its time", f"{least:.2f} to {row.within:.2f}"
        keeps = least <= share <= row.within
    elif row.at_most is not None:
        ratio, promised, keeps = (
            f"{share:.2f} of its time",
            f"at most {row.at_most:.3g}",
            share <= row.at_most,
        )
    else:
        times, wanted = theirs.seconds / ours.seconds, row.at_least
        ratio, promised = f"{times:.2f}x", "" if wanted is None else f"{wanted:g}x"
        keeps = wanted is None or times >= wanted
    memory = f"{ours.peak_bytes >> 20} MiB" + (f" ({theirs.peak_bytes >> 20})" if theirs.peak_bytes else "")
    cells = (row.title, peer, _times(theirs), _times(ours), ratio, promised, memory)
    return f"| {' | '.join(cells)} |", keeps and ours.peak_bytes < row.memory


def _times(times: Times) -> str:
    fastest, slowest = times.spread
    return f"{times.seconds:.2f} s ({fastest:.2f} to {slowest:.2f})"


def _help(rounds: int) -> tuple[str, bool]:
    seconds = median(help_time().seconds for _ in range(rounds))
    return f"| `kafkatool --help` | | | {seconds:.3f} s | | below {HELP_LIMIT} s | |", seconds < HELP_LIMIT


if __name__ == "__main__":
    sys.exit(main())
