"""Our log beside the broker's own class, called directly: what no client can make a broker do any more."""

from __future__ import annotations

import itertools
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kafkatool.engine.batches.records import records_of
from kafkatool.engine.directory.log_dir import read_partition
from kafkatool.engine.files.disk import Disk
from kafkatool.engine.files.source import Guest
from kafkatool.engine.log.loading import LeftLog
from kafkatool.engine.log.reading import records
from kafkatool.engine.log.validation import split_batches
from kafkatool.engine.plan.applying import apply
from kafkatool.engine.plan.steps import Applying
from kafkatool.engine.recover.planning import as_plan, plan_recover
from kafkatool.engine.recover.result import StartFacts
from kafkatool.format.batch import HEADER_SIZE, BatchHeader, Codec, NewRecord, read_header, write_header
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.legacy import write_message, write_wrapper
from kafkatool.format.names import segment_file
from tests.kafka import peers
from tests.kafka.broker_log import TwoLogs
from tests.kafka.java_client import JavaServant, require_servant
from tests.kafka.old_requests import NOW, messages, old_requests
from tests.logs import content
from tests.places import FIXTURES

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("broker log")]


@pytest.fixture(scope="module")
def servant() -> Iterator[JavaServant]:
    running = require_servant(peers.NEWEST, "BrokerLog.java")
    yield running
    running.close()


# --- magic 0 and 1 ------------------------------------------------------------------------------------


LEADING: dict[str, dict[str, str]] = {
    "plain": {"index.interval.bytes": "100", "internal.segment.bytes": "2500", "max.message.bytes": "2000"},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "keyed": {"cleanup.policy": "compact"},
    "bounded": {"message.timestamp.before.max.ms": "3600000"},
    "uncompressed": {"compression.type": "uncompressed"},
    "gzip": {"compression.type": "gzip", "compression.gzip.level": "3"},
    "zstd": {"compression.type": "zstd"},
}


@pytest.mark.parametrize("name", LEADING)
def test_a_leader_makes_one_batch_of_what_old_clients_send(
    servant: JavaServant, tmp_path: Path, name: str
) -> None:
    both = TwoLogs(servant, tmp_path, f"{name}-0", LEADING[name])
    both.open(NOW).become_leader(2)
    servant.call("lead", epoch=2)
    # Written anew with their own codec, lz4 and snappy may give other bytes than the broker's library.
    codecs = [Codec.GZIP, *([Codec.SNAPPY, Codec.LZ4] if "compression.type" in LEADING[name] else [])]
    errors = [both.append(data, NOW, 2) for magic in (0, 1) for data in old_requests(magic, codecs)]
    both.close()
    assert errors.count(0) > 15
    assert {2, 87} <= set(errors)
    assert both.differences() == []


def test_a_follower_takes_old_messages_as_they_are(servant: JavaServant, tmp_path: Path) -> None:
    """Rolled by size and by offsets; the epochs of before are forgotten, and begin anew with magic 2."""
    settings = {"index.interval.bytes": "100", "internal.segment.bytes": "900"}
    both = TwoLogs(servant, tmp_path, "followed-0", settings)
    log = both.open(NOW)
    offset = 0

    def batch() -> bytes:
        return write_batch([NewRecord(b"k", b"v", NOW)], base_offset=offset, partition_leader_epoch=4)

    assert both.append(batch(), NOW) == 0
    for magic, codec in itertools.product((0, 1), (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)):
        for step in (1, 3, 1 << 31):
            offset = log.log_end_offset + step - 1
            rows = [
                write_message(offset + at, b"k", b"v%d" % at, magic=magic, timestamp_ms=NOW + at)
                for at in range(12)
            ]
            if codec:
                rows = [write_wrapper(rows[at : at + 4], codec, magic=magic) for at in range(0, 12, 4)]
            assert both.append(b"".join(rows), NOW) == 0
            assert log.epochs.entries == []
    assert both.append(messages(1, 1)[0], NOW) == -1, "below the end of the log"
    without_epoch = write_batch([NewRecord(b"k", b"v", NOW)], base_offset=log.log_end_offset)
    assert both.append(without_epoch, NOW) == -1
    offset = log.log_end_offset
    assert both.append(batch(), NOW) == 0
    assert len(list(records(log, 0))) == 1 + 8 * 3 * 12 + 1
    both.close()
    assert both.differences() == []


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("legacy/*/*-0")), ids=lambda path: path.parent.name)
def test_the_fixtures_of_old_magics_give_the_brokers_files(
    servant: JavaServant, tmp_path: Path, path: Path
) -> None:
    both = TwoLogs(servant, tmp_path, path.name, {"index.interval.bytes": "60"})
    both.open(NOW)
    for batch in split_batches((path / segment_file(0, ".log")).read_bytes()):
        header, data = batch.header, bytes(batch.data)
        if isinstance(header, BatchHeader):
            data = write_header(header._replace(partition_leader_epoch=1)) + data[HEADER_SIZE:]
        assert both.append(data, NOW) == 0
    both.close()
    assert both.differences() == []


# --- another codec ------------------------------------------------------------------------------------


def batches() -> Iterator[bytes]:
    chance = random.Random(3)
    for number, count in enumerate((1, 3, 5, 40, 400)):
        rows = [
            NewRecord(
                b"key %d" % (at % 7),
                chance.choice([b"value %d " % at * 5, chance.randbytes(60), b"", None]),
                NOW + chance.randint(-9, 9),
                ((b"header", b"%d" % at),) * (at % 3),
            )
            for at in range(count)
        ]
        yield write_batch(rows, codec=Codec(number), producer_id=7, producer_epoch=0, base_sequence=0)


RECOMPRESSED = {
    "gzip": {},
    "gzip-1": {"compression.gzip.level": "1"},
    "snappy": {},
    "lz4": {},
    "lz4-12": {"compression.lz4.level": "12"},
    "zstd": {},
    "zstd-10": {"compression.zstd.level": "10"},
    "uncompressed": {},
}
# Here the library chooses the same matches as the broker's, whatever the release; elsewhere only by chance.
SAME_BYTES = ("gzip", "gzip-1", "lz4-12", "uncompressed")


@pytest.mark.parametrize("name", RECOMPRESSED)
def test_a_topics_codec_is_applied_as_by_a_broker(servant: JavaServant, tmp_path: Path, name: str) -> None:
    settings = {"compression.type": name.partition("-")[0], **RECOMPRESSED[name]}
    both = TwoLogs(servant, tmp_path, f"{name}-0", settings)
    both.open(NOW)
    sequence = 0
    for data in batches():
        header = read_header(data)
        rows = [NewRecord(*row[4:6], row.timestamp_ms, row.headers) for row in records_of(header, data)]
        codec = Codec(header.attributes & 7)
        numbered = write_batch(rows, codec=codec, producer_id=7, producer_epoch=0, base_sequence=sequence)
        sequence += len(rows)
        assert both.append(numbered, NOW, 0) == 0
    both.close()
    theirs, ours = (list(written(path)) for path in (both.theirs, both.ours))
    assert [batch.header._replace(batch_length=0, crc=0) for batch in ours] == [
        batch.header._replace(batch_length=0, crc=0) for batch in theirs
    ]
    for left, right in zip(ours, theirs, strict=True):
        assert list(records_of(left.header, left.data)) == list(records_of(right.header, right.data))
    if name in SAME_BYTES:
        assert both.differences() == []


class Written(NamedTuple):
    header: BatchHeader
    data: bytes


def written(directory: Path) -> Iterator[Written]:
    for batch in split_batches((directory / segment_file(0, ".log")).read_bytes()):
        assert isinstance(batch.header, BatchHeader)
        yield Written(batch.header, bytes(batch.data))


# --- loading ------------------------------------------------------------------------------------------


LEFTOVERS = sorted(FIXTURES.glob("leftovers/*/cleaning-0"))


@pytest.mark.parametrize("path", LEFTOVERS, ids=lambda path: path.parent.name)
@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "killed"])
def test_what_an_interrupted_cleaner_left_is_resolved_as_by_a_broker(
    servant: JavaServant, tmp_path: Path, path: Path, is_clean: bool
) -> None:
    both = TwoLogs(servant, tmp_path, path.name, {"cleanup.policy": "compact", "index.interval.bytes": "200"})
    both.prepare(lambda directory: shutil.copytree(path, directory))
    assert any(name.suffix in (".cleaned", ".swap", ".deleted") for name in both.ours.iterdir())
    both.open(NOW, LeftLog(is_clean=is_clean))
    both.close()
    assert both.differences() == []
    assert not any(name.suffix in (".cleaned", ".swap", ".deleted") for name in both.ours.iterdir())


FAR = 1 << 31


def spread(magic: int, codec: Codec) -> bytes:
    """Batches of four records each that one segment cannot hold; the first is not at its base."""
    parts = []
    for start in (3, 7, FAR - 2, FAR + 2, FAR + 6, 3 * FAR, 3 * FAR + 4):
        if magic == 2:
            rows = [NewRecord(b"k", b"value", NOW + start % 11) for _ in range(4)]
            parts.append(write_batch(rows, base_offset=start, codec=codec, partition_leader_epoch=1))
            continue
        old = [write_message(start + at, b"k", b"v", magic=magic, timestamp_ms=NOW) for at in range(4)]
        parts += [write_wrapper(old, codec, magic=magic, timestamp_ms=NOW)] if codec else old
    return b"".join(parts)


@pytest.mark.parametrize("first_base", [0, 3])
@pytest.mark.parametrize("recovery_point", [0, 1 << 40], ids=["killed", "index lost"])
@pytest.mark.parametrize(
    ("magic", "codec"), [(2, Codec.NONE), (2, Codec.GZIP), (1, Codec.NONE), (1, Codec.GZIP), (0, Codec.GZIP)]
)
def test_a_segment_of_too_many_offsets_is_split_as_by_a_broker(
    servant: JavaServant, tmp_path: Path, first_base: int, recovery_point: int, magic: int, codec: Codec
) -> None:
    both = TwoLogs(servant, tmp_path, "spread-0", {"index.interval.bytes": "100"})

    def prepare(directory: Path) -> None:
        directory.mkdir()
        log = directory / segment_file(first_base, ".log")
        log.write_bytes(spread(magic, codec))
        os.utime(log, (1_600_000_000, 1_600_000_000))

    both.prepare(prepare)
    log = both.open(NOW, LeftLog(recovery_point, log_start_offset=first_base))
    assert len(log.segments) == 3
    assert len(list(records(log, 3))) == 7 * 4
    both.close()
    # A broker that splits before the segment is among its own forgets to delete it: all of it is there twice.
    forgotten = [segment_file(0, f".{kind}") for kind in ("index", "log", "timeindex")]
    assert both.differences() == (forgotten if recovery_point and first_base == 0 else [])
    ours, theirs = both.directories
    for path in ours.glob("*.log"):
        assert path.stat().st_mtime == (theirs / path.name).stat().st_mtime
    if not recovery_point:
        recovered = tmp_path / "recovered" / theirs.name
        recovered.parent.mkdir()
        prepare(recovered)
        recover(recovered, StartFacts(NOW, log_start=first_base, interval=100))
        assert content(recovered) == content(theirs)


def recover(directory: Path, how: StartFacts) -> None:
    """What `kafkatool recover --apply` does."""
    planned = plan_recover(read_partition(str(directory), []), how, Guest(cache_keep=True))
    apply(as_plan(str(directory.parent), [planned]), Disk(), Applying(NOW, offline=True))
    for kept in directory.glob("*.kafkatool-*"):
        kept.unlink()


# --- preallocation ------------------------------------------------------------------------------------


def log_sizes(directory: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in directory.glob("*.log")}


def test_preallocated_logs_are_as_long_as_a_brokers(servant: JavaServant, tmp_path: Path) -> None:
    """While they are written to, rolled, cut, left by a crash, and closed."""
    settings = {
        "preallocate": "true",
        "internal.segment.bytes": "3000",
        "index.interval.bytes": "200",
        "segment.index.bytes": "2000",
    }
    both = TwoLogs(servant, tmp_path, "reserved-0", settings)
    log = both.open(NOW)
    ours, theirs = both.directories
    for number in range(60):
        rows = [NewRecord(b"k", b"value %d" % at, NOW + number) for at in range(5)]
        both.append(write_batch(rows, producer_id=5, producer_epoch=0, base_sequence=5 * number), NOW, 0)
        if number in (0, 30, 59):
            assert log_sizes(ours) == log_sizes(theirs)
            assert 3000 in log_sizes(ours).values()
    killed = TwoLogs(servant, tmp_path / "killed", "reserved-0", settings)
    killed.prepare(lambda directory: shutil.copytree(theirs, directory))
    for offset in (log.active.base_offset + 7, log.active.base_offset - 12, 0):
        log.truncate_to(offset, NOW)
        servant.call("truncate", offset=offset)
        assert log_sizes(ours) == log_sizes(theirs)
    both.close()
    assert both.differences() == []
    assert log_sizes(ours) == log_sizes(theirs)
    killed.open(NOW, LeftLog(100))
    killed.append(write_batch([NewRecord(b"k", b"after", NOW)]), NOW, 0)
    killed.close()
    assert killed.differences() == []
    assert log_sizes(killed.ours) == log_sizes(killed.theirs)
