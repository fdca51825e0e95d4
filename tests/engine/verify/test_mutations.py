"""Segments damaged at random: every flip that a checksum covers is found at its batch, and nothing hangs."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from kafkatool.engine.jobs.survey import Split
from kafkatool.engine.verify.log_facts import LogFacts
from kafkatool.engine.verify.walk import LogJob
from kafkatool.format.batch import CRC_START
from kafkatool.format.names import segment_file
from tests.engine.partitions_to_verify import (
    findings,
    random_segment,
    with_something_done_to_it,
    write_segment,
)

QUICK, LONG = 300, 10_000
SLOWEST = 60.0
"""Seconds for a segment of some kilobytes, on a machine that does other things too."""


def walk(log: Path) -> LogFacts:
    size = log.stat().st_size
    split = Split(str(log), 0, size, size)
    job = LogJob(0, deep=True)
    facts = job.map(split, None)
    if not facts.done:
        facts = job.map(Split(str(log), facts.stop, size, size), facts)
    return facts


def flipped_under_a_checksum(seed: random.Random, batches: list[bytes]) -> tuple[bytes, int]:
    """The log with one bit flipped, and the position of the batch that has it."""
    raw = bytearray(b"".join(batches))
    which = seed.randrange(len(batches))
    start = sum(map(len, batches[:which]))
    at = seed.randrange(start + CRC_START, start + len(batches[which]))
    raw[at] ^= 1 << seed.randrange(8)
    return bytes(raw), start


def check_flips(tmp_path: Path, count: int, start: int) -> None:
    log = tmp_path / segment_file(0, ".log")
    for number in range(start, start + count):
        seed = random.Random(number)
        raw, position = flipped_under_a_checksum(seed, random_segment(seed))
        log.write_bytes(raw)
        found = walk(log).damages
        assert [damage.position for damage in found] == [position], number
        assert str(found[0].kind) == "bit_flip", number


def check_mutations(tmp_path: Path, count: int, start: int) -> None:
    log = tmp_path / segment_file(0, ".log")
    for number in range(start, start + count):
        seed = random.Random(number)
        batches = random_segment(seed)
        write_segment(tmp_path, 0, batches, is_active=True)
        log.write_bytes(with_something_done_to_it(seed, batches))
        started = time.monotonic()
        findings(tmp_path, deep=True)
        assert time.monotonic() - started < SLOWEST, number


def test_every_flip_under_a_checksum_is_found_at_its_batch(tmp_path: Path) -> None:
    check_flips(tmp_path, QUICK, 0)


def test_no_mutation_crashes_or_hangs(tmp_path: Path) -> None:
    check_mutations(tmp_path, QUICK, 0)


@pytest.mark.soak
def test_every_flip_under_a_checksum_is_found_at_its_batch_at_length(tmp_path: Path) -> None:
    check_flips(tmp_path, LONG // 2, QUICK)


@pytest.mark.soak
def test_no_mutation_crashes_or_hangs_at_length(tmp_path: Path) -> None:
    check_mutations(tmp_path, LONG // 2, QUICK)
