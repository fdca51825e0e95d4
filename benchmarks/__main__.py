"""`python -m benchmarks [--rounds N] [--data DIR]`: ratios to a peer; exit 1 where a promise is not kept."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks.data import narrow_log, wide_log
from benchmarks.measure import contest, repeat
from tests.kafka.dump_tool import main_class
from tests.kafka.peers import NEWEST, cache_dir, classpath, require_java

MEMORY_LIMIT = 150 << 20
HELP_LIMIT = 0.2


class Listing(NamedTuple):
    """A batch listing that Kafka's tool can do too."""

    title: str
    log: Path
    wanted_ratio: float


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--data", type=Path, default=cache_dir() / "benchmarks")
    chosen = options.parse_args()
    listings = [
        Listing("list 1 GiB of 16 KiB batches", wide_log(chosen.data), 2.0),
        Listing("list 256 MiB of single records", narrow_log(chosen.data), 1.2),
    ]
    print(f"| job | kafka-dump-log {NEWEST} | kafkatool | ratio | wanted | peak memory (theirs) |")
    print("|---|---|---|---|---|---|")
    kept = [_listing(listing, chosen.rounds) for listing in listings]
    kept.append(_help(chosen.rounds))
    return 0 if all(kept) else 1


def _listing(listing: Listing, rounds: int) -> bool:
    _warm(listing.log)
    theirs = [*_kafka_dump_log(), "--files", str(listing.log)]
    ours = [*_kafkatool(), "dump-log", "--files", str(listing.log)]
    result = contest(ours, theirs, rounds)
    print(
        f"| {listing.title} | {result.theirs.seconds:.2f} s | {result.ours.seconds:.2f} s"
        f" | {result.ratio:.2f}x | {listing.wanted_ratio}x"
        f" | {result.ours.peak_bytes >> 20} MiB ({result.theirs.peak_bytes >> 20}) |",
        flush=True,
    )
    return result.ratio >= listing.wanted_ratio and result.ours.peak_bytes < MEMORY_LIMIT


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
