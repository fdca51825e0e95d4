"""`python -m benchmarks [--rounds N] [--data DIR]`: ratios to a peer; exit 1 where a promise is not kept."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks.data import four_logs, narrow_log, wide_log
from benchmarks.measure import contest, repeat
from tests.kafka.dump_tool import main_class
from tests.kafka.peers import NEWEST, cache_dir, classpath, require_java

MEMORY_LIMIT = 150 << 20
HELP_LIMIT = 0.2
TWO_JOBS_RATIO = 1.6
LIST = ["dump-log", "--files"]


class Listing(NamedTuple):
    """A walk over all batches, beside the listing of Kafka's tool. Without a wanted ratio it is only told."""

    title: str
    command: list[str]
    log: Path
    wanted_ratio: float


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--data", type=Path, default=cache_dir() / "benchmarks")
    chosen = options.parse_args()
    listings = [
        Listing("list 1 GiB of 16 KiB batches", LIST, wide_log(chosen.data), 2.0),
        Listing("list 256 MiB of single records", LIST, narrow_log(chosen.data), 1.2),
        Listing("verify 1 GiB of 16 KiB batches", ["verify"], wide_log(chosen.data), 2.0),
        Listing("verify 256 MiB of single records", ["verify"], narrow_log(chosen.data), 0.0),
    ]
    print(f"| job | kafka-dump-log {NEWEST} | kafkatool | ratio | wanted | peak memory (theirs) |")
    print("|---|---|---|---|---|---|")
    kept = [_listing(listing, chosen.rounds) for listing in listings]
    kept.append(_two_jobs(four_logs(chosen.data), chosen.rounds))
    kept.append(_help(chosen.rounds))
    return 0 if all(kept) else 1


def _listing(listing: Listing, rounds: int) -> bool:
    _warm(listing.log)
    theirs = [*_kafka_dump_log(), "--files", str(listing.log)]
    ours = [*_kafkatool(), *listing.command, str(listing.log)]
    result = contest(ours, theirs, rounds)
    wanted = f"{listing.wanted_ratio}x" if listing.wanted_ratio else ""
    print(
        f"| {listing.title} | {result.theirs.seconds:.2f} s | {result.ours.seconds:.2f} s"
        f" | {result.ratio:.2f}x | {wanted}"
        f" | {result.ours.peak_bytes >> 20} MiB ({result.theirs.peak_bytes >> 20}) |",
        flush=True,
    )
    return result.ratio >= listing.wanted_ratio and result.ours.peak_bytes < MEMORY_LIMIT


def _two_jobs(logs: list[Path], rounds: int) -> bool:
    """The same work on one process and on two."""
    for log in logs:
        _warm(log)
    verify = [*_kafkatool(), "verify", *map(str, logs), "--jobs"]
    result = contest([*verify, "2"], [*verify, "1"], rounds)
    print(
        f"| verify 4 GiB in 4 segments, two jobs beside one | ({result.theirs.seconds:.2f} s, one job)"
        f" | {result.ours.seconds:.2f} s | {result.ratio:.2f}x | {TWO_JOBS_RATIO}x"
        f" | {result.ours.peak_bytes >> 20} MiB |",
        flush=True,
    )
    return result.ratio >= TWO_JOBS_RATIO and result.ours.peak_bytes < MEMORY_LIMIT


def _warm(path: Path) -> None:
    """Bring it into the page cache for both, in pieces: a child inherits its parent's peak memory."""
    with path.open("rb", buffering=0) as log:
        while log.read(1 << 20):
            pass


def _help(rounds: int) -> bool:
    sample = repeat([*_kafkatool(), "--help"], rounds)
    print(
        f"| `kafkatool --help` | | {sample.seconds:.3f} s | | {HELP_LIMIT} s"
        f" | {sample.peak_bytes >> 20} MiB |"
    )
    return sample.seconds < HELP_LIMIT


def _kafka_dump_log() -> list[str]:
    """As Kafka's own script starts it."""
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    return [require_java(), "-Xmx256M", "-server", quiet, "-cp", classpath(NEWEST), main_class(NEWEST)]


def _kafkatool() -> list[str]:
    installed = Path(sys.executable).with_name("kafkatool")
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "kafkatool"]


if __name__ == "__main__":
    sys.exit(main())
