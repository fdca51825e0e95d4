"""Segments damaged at random: every flip that a checksum covers is found at its batch, and nothing hangs."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from kafkatool.engine.jobs.survey import Split
from kafkatool.engine.verify.log_facts import LogFacts
from kafkatool.engine.verify.walk import LogJob
from kafkatool.format.batch import CRC_START, Codec, NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.names import segment_file
from tests.engine.partitions_to_verify import aborted_transaction, batch, findings, write_segment
from tests.mutations import mutated

QUICK, LONG = 300, 10_000
SLOWEST = 60.0
"""Seconds for a segment of some kilobytes, on a machine that does other things too."""


def segment(seed: random.Random) -> list[bytes]:
    """Some batches of every codec, of producers, and of a transaction."""
    batches = []
    offset = 0
    for _ in range(seed.randrange(4, 12)):
        if seed.random() < 0.15:
            batches += aborted_transaction(offset)
            offset += 3
        elif seed.random() < 0.5:
            batches.append(batch(offset, size=seed.randrange(1, 500)))
            offset += 1
        else:
            count = seed.randrange(1, 6)
            rows = [
                NewRecord(b"k", seed.randbytes(seed.randrange(80)), 1_700_000_000_000 + 1000 * (offset + at))
                for at in range(count)
            ]
            codec = seed.choice(list(Codec))
            batches.append(write_batch(rows, base_offset=offset, codec=codec, partition_leader_epoch=0))
            offset += count
    return batches


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


def with_something_done_to_it(seed: random.Random, batches: list[bytes]) -> bytes:
    def swap_blocks(raw: bytearray, _at: int) -> None:
        block = min(512, len(raw) // 3)
        at, to = seed.randrange(len(raw) - block), seed.randrange(len(raw) - block)
        raw[at : at + block], raw[to : to + block] = raw[to : to + block], raw[at : at + block]

    return mutated(seed, b"".join(batches), swap_blocks)


def check_flips(tmp_path: Path, count: int, start: int) -> None:
    log = tmp_path / segment_file(0, ".log")
    for number in range(start, start + count):
        seed = random.Random(number)
        raw, position = flipped_under_a_checksum(seed, segment(seed))
        log.write_bytes(raw)
        found = walk(log).damages
        assert [damage.position for damage in found] == [position], number
        assert str(found[0].kind) == "bit_flip", number


def check_mutations(tmp_path: Path, count: int, start: int) -> None:
    log = tmp_path / segment_file(0, ".log")
    for number in range(start, start + count):
        seed = random.Random(number)
        batches = segment(seed)
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
