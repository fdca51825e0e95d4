"""Regenerate `tests/fixtures/` from real brokers, and the goldens from Kafka's own dump tools.

python -m tests.kafka.make_fixtures              everything (some minutes)
python -m tests.kafka.make_fixtures logs tiered  some parts
python -m tests.kafka.make_fixtures goldens      only what the dump tools print for what is there
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

from tests.kafka import peers
from tests.kafka.making import dirs, internal, legacy, logs, replicas, tiered
from tests.kafka.making.golden_runs import make_goldens

_BOTH = (peers.NEWEST, peers.OLDEST)

PARTS: dict[str, list[Callable[[], None]]] = {
    "logs": [partial(logs.make_logs, version) for version in _BOTH],
    "legacy": [partial(legacy.make_legacy, version) for version in _BOTH],
    "internal": [partial(internal.make_internal, version) for version in ("4.3.1", "4.0.2", "3.9.2")],
    "dirs": [dirs.make_dirs],
    "tiered": [partial(tiered.make_tiered, version) for version in _BOTH],
    "replicas": [replicas.make_replicas],
    "goldens": [make_goldens],
}


def main(chosen: list[str]) -> None:
    """Make the chosen parts, or all of them."""
    for name in chosen or PARTS:
        for make in PARTS[name]:
            started = time.monotonic()
            make()
            print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
