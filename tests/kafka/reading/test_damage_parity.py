"""Mutated logs: our text is Kafka's for as long as Kafka goes on, and begins with it where Kafka gives up."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkatool.format.batch import Codec, NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.legacy import write_message, write_wrapper
from kafkatool.format.release import Release
from kafkatool.format.schema.control import write_end_marker
from tests.cli import run
from tests.kafka.dump_tool import shared
from tests.kafka.peers import NEWEST, OLDEST, RELEASES, require_kafka
from tests.logs import TIME

NAME = "00000000000000000000.log"
MODES: tuple[list[str], ...] = (
    ["--deep-iteration"],
    ["--print-data-log"],
    [],
    ["--print-data-log", "--skip-record-metadata"],
)

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("dump tool")]


def plain_log(seed: int = 0) -> bytes:
    """Batches of every codec, a transaction's marker, an emptied batch."""
    dice = random.Random(seed)
    log = b""
    offset = 0
    for codec in Codec:
        records = [
            NewRecord(
                None if dice.random() < 0.2 else f"key-{at}".encode(),
                None if dice.random() < 0.2 else dice.randbytes(dice.randrange(40)),
                TIME + dice.randrange(1000),
                [("kopf-é".encode(), None), (b"", b"v")][: dice.randrange(3)],
            )
            for at in range(dice.randrange(1, 6))
        ]
        log += write_batch(
            records, base_offset=offset, codec=codec, producer_id=7, producer_epoch=1, base_sequence=offset
        )
        offset += len(records)
    key, value = write_end_marker(committed=True, coordinator_epoch=3)
    log += write_batch([NewRecord(key, value, TIME)], base_offset=offset, attributes=0x30, producer_id=7)
    return log + write_batch([], base_offset=offset + 1)


def legacy_log(seed: int = 0) -> bytes:
    """Single messages and wrappers of magic 0 and 1."""
    dice = random.Random(seed)
    log = b""
    offset = 0
    for magic in (0, 1):
        for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4):
            entries = [
                write_message(
                    offset + at,
                    None if dice.random() < 0.3 else b"k%d" % at,
                    None if dice.random() < 0.3 else b"v" * dice.randrange(20),
                    magic=magic,
                    timestamp_ms=TIME + at,
                )
                for at in range(3)
            ]
            log += b"".join(entries) if not codec else write_wrapper(entries, codec, magic=magic)
            offset += 3
    return log


def mutations(log: bytes, dice: random.Random) -> bytes:
    """One of the ways in which a disk lies."""
    at = dice.randrange(len(log))
    length = dice.randrange(1, 64)
    match dice.randrange(7):
        case 0:
            return log[:at] + bytes([log[at] ^ 1 << dice.randrange(8)]) + log[at + 1 :]
        case 1:
            return log[:at]
        case 2:
            return log[:at] + bytes(length) + log[at + length :]
        case 3:
            return log[:at] + log[at : at + length] + log[at:]
        case 4:
            return log[:at] + log[at + length :]
        case 5:
            return log[:at] + dice.randbytes(length) + log[at + length :]
    return log + bytes(length)


def compare(directory: Path, log: bytes, version: str, mode: list[str]) -> None:
    path = directory / NAME
    path.write_bytes(log)
    theirs = shared(version).run(["--files", str(path), *mode])
    label = Release.parse(version).label
    ours = run("dump-log", "--compat", label, "--files", str(path), *mode)
    where = f"{version} {mode} {theirs.exception}\n{log.hex()}"
    assert ours.exit_code in (0, 4), where
    if theirs.exception is None and b"invalid bytes at the end" not in theirs.stdout:
        assert ours.stdout == theirs.stdout, where
        assert ours.kafka_stderr == [line for line in theirs.stderr.split(b"\n") if line], where
    else:
        assert ours.stdout.startswith(theirs.stdout), where


def cases(count: int, seed: int) -> Iterator[tuple[bytes, list[str]]]:
    dice = random.Random(seed)
    makers: list[Callable[[int], bytes]] = [plain_log, plain_log, legacy_log]
    for number in range(count):
        log = dice.choice(makers)(number)
        for _ in range(dice.randrange(3)):
            log = mutations(log, dice)
        yield log, MODES[number % len(MODES)]


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_a_damaged_log_reads_as_kafka_reads_it(version: str, tmp_path: Path) -> None:
    require_kafka(version)
    for log, mode in cases(150, seed=Release.parse(version)):
        compare(tmp_path, log, version, mode)


@pytest.mark.soak
@pytest.mark.parametrize("version", RELEASES)
def test_many_damaged_logs_read_as_kafka_reads_them(version: str, tmp_path: Path) -> None:
    require_kafka(version)
    for log, mode in cases(
        int(os.environ.get("KAFKATOOL_SOAK_CASES", "4000")), seed=1 + Release.parse(version)
    ):
        compare(tmp_path, log, version, mode)
