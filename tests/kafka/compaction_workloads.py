"""Partitions that brokers clean while we watch: random records, each pass of a broker, and the same by us.

The cleaner is held off by a dirty ratio that is never reached; every replica's directory is copied; the ratio
is taken away. What a pass covered and when it began is in that broker's log, and to the millisecond in the
horizons that it wrote. `kafkatool compact --write-to` then runs once for every pass, each time on what it
wrote the time before, with no more than a disk holds: the directory, the checkpoints beside it, the broker's
configuration. Only the topic's settings, which are in the metadata, are said.
"""

from __future__ import annotations

import random
import re
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from kafkatool.engine.batches.records import records_of
from kafkatool.format.batch import BatchHeader
from kafkatool.format.release import Release
from kafkatool.format.state.checkpoint import PartitionOffset, read_offset_checkpoint, write_offset_checkpoint
from tests.cli import Run, run
from tests.engine.compaction_logs import read_batches
from tests.kafka.broker import Broker
from tests.kafka.cluster import Cluster
from tests.kafka.librdkafka import Record, wait_until
from tests.kafka.making.logs import small_segments

# The buffer is as small as a broker takes, and of that the part that leaves room for 40 keys: most passes are
# partial.
CLEANING = {
    "log.cleaner.dedupe.buffer.size": str((1 << 20) + 24),
    "log.cleaner.io.buffer.load.factor": "0.00092",
    "log.cleaner.backoff.ms": "200",
    "replica.high.watermark.checkpoint.interval.ms": "200",
}
# Of six keys, and as little read and written at a time as a batch allows: the buffers grow by need.
TINY = {"log.cleaner.io.buffer.load.factor": "0.00014", "log.cleaner.io.buffer.size": "300"}
CLEANED_UP_TO = "cleaner-offset-checkpoint"
REPLICATED_UP_TO = "replication-offset-checkpoint"
_BEGINS = re.compile(r"(\S+ \S+) .*Beginning cleaning of log (\S+?)\.?$")
_DONE = re.compile(r"cleaned log (\S+) \(dirty section = \[(\d+), (\d+)\]\)")
_FORMAT = "%Y-%m-%d %H:%M:%S.%f"
_SIDE_FILES = (".log", ".index", ".timeindex", ".txnindex")
_QUIET_SECONDS = 1.6
_MOST_SECONDS = 180


class CleaningBroker(Broker):
    """A broker with a tiny offset map."""

    def __init__(self, version: str) -> None:
        super().__init__(version, CLEANING)


class BrokerPass(NamedTuple):
    """One pass by the broker's log; `at_ms` is a millisecond or so late."""

    first: int
    end: int
    at_ms: int


@dataclass
class Replica:
    """What one broker has of a topic with one partition, and what it says of it."""

    broker: Broker
    topic: str
    seen: int = 0
    """The byte of the broker's log from which on its passes count."""

    @property
    def directory(self) -> Path:
        """Where it lies; a topic is there a little before its directory."""
        places = [log_dir / f"{self.topic}-0" for log_dir in self.broker.log_dirs]
        wait_until(lambda: any(path.exists() for path in places), f"the directory of {self.topic}")
        return next(path for path in places if path.exists())

    def checkpointed(self, name: str) -> int | None:
        """Its offset in a checkpoint of its log directory."""
        path = self.directory.parent / name
        entries = read_offset_checkpoint(path.read_bytes()) if path.exists() else []
        return next((one.offset for one in entries if one.topic == self.topic), None)

    @property
    def log_end(self) -> int:
        active = max(self.directory.glob("*.log"))
        return max((one.header.last_offset + 1 for one in read_batches(active)), default=int(active.stem))

    def passes(self) -> list[BrokerPass]:
        """What the broker's log says of its cleaner."""
        found, begun = [], 0
        with self.broker.log_file.open(errors="replace") as file:
            file.seek(self.seen)
            for line in file:
                if (match := _BEGINS.search(line.rstrip())) and match[2] == f"{self.topic}-0":
                    moment = datetime.strptime(match[1], _FORMAT).replace(tzinfo=UTC)
                    begun = int(moment.timestamp() * 1000 + 0.5)
                elif (match := _DONE.search(line)) and match[1] == f"{self.topic}-0":
                    found.append(BrokerPass(int(match[2]), int(match[3]), begun))
        return found


class Workload:
    """One topic and what is written to it, from a seed; in a cluster on these nodes: the first leads."""

    def __init__(self, seed: int, serving: Broker | Cluster, nodes: Sequence[int] = ()) -> None:
        self.seed, self.serving, self.nodes = seed, serving, nodes
        self.random = random.Random(seed)
        self.name = f"clean-{seed}"
        self.release = Release.parse(serving.version)
        pick = self.random.choice
        self.is_compressed = pick([False, True])
        self.keys = pick([5, 30, 90])
        size = "internal.segment.bytes" if self.release >= Release.V4_1 else "segment.bytes"
        self.config = {
            "delete.retention.ms": pick(["0", "1500", "600000"]),
            "message.timestamp.type": pick(["CreateTime", "CreateTime", "LogAppendTime"]),
            size: pick(["900", "2500", "6000"]),
            "index.interval.bytes": pick(["100", "1000"]),
            "min.cleanable.dirty.ratio": "1.0",
            "cleanup.policy": "compact",
        }
        brokers = [serving.nodes[one] for one in nodes] if isinstance(serving, Cluster) else [serving]
        self.replicas = [Replica(broker, self.name) for broker in brokers]

    @property
    def leader(self) -> Replica:
        return self.replicas[0]

    # --- writing --------------------------------------------------------------------------------------

    def create(self) -> None:
        # As long as the topic is not compacted it takes records without a key.
        config = {**self.config, "cleanup.policy": "delete"}
        if isinstance(self.serving, Cluster):
            self.serving.create_topic(self.name, self.nodes[:1], config)
        else:
            self.serving.client.create_topic(self.name, config)

    def replicate(self) -> None:
        """Let the followers come: they fetch what is there in larger pieces than it was written in."""
        if isinstance(self.serving, Cluster):
            self.serving.reassign(self.name, self.nodes)

    def set(self, config: dict[str, str]) -> None:
        """Change some settings, and wait until every broker goes by them."""
        self.config.update(config)
        logs = [replica.broker.log_file for replica in self.replicas]
        seen = [log.stat().st_size for log in logs]
        self.serving.client.alter_config(self.name, config)
        for log, start in zip(logs, seen, strict=True):
            wait_until(
                lambda at=log, since=start: self._is_told(at, since, config),  # type: ignore[misc]
                f"{self.name} to have {config}",
            )

    def _is_told(self, log: Path, start: int, config: dict[str, str]) -> bool:
        with log.open(errors="replace") as file:
            file.seek(start)
            told = [line for line in file if f"Updating topic {self.name} with new configuration" in line]
        return any(all(f"{name} -> {value}" in line for name, value in config.items()) for line in told)

    def write(self, number: int, *, leave_open: bool = False) -> None:
        """What belongs to a round, the first of which is 0; if asked, with a transaction that never ends."""
        if number == 0:
            self._write(with_unkeyed=True)
            self.set({"cleanup.policy": "compact"})
        self._write()
        if leave_open:
            self._transaction(None)
            self._write()

    def _write(self, *, with_unkeyed: bool = False) -> None:
        for _ in range(self.random.randint(4, 8)):
            kind = self.random.random()
            if kind < 0.3:
                self._transaction(self.random.random() < 0.5)
            else:
                steps = [self._records(with_unkeyed) for _ in range(self.random.randint(1, 6))]
                self.serving.client.produce_steps(
                    self.name, steps, compression_type=self._codec(), enable_idempotence=kind < 0.6
                )

    def _transaction(self, commit: bool | None) -> None:
        steps = [self._records() for _ in range(self.random.randint(1, 3))]
        number = self.random.randint(0, 2) if commit is not None else "open"
        self.serving.client.transaction(
            self.name,
            steps,
            transactional_id=f"{self.name}-{number}",
            commit=commit,
            compression_type=self._codec(),
        )

    def _codec(self) -> str:
        codecs = ["gzip", "snappy", "lz4", "zstd", "none"] if self.is_compressed else ["none"]
        return self.random.choice(codecs)

    def _records(self, with_unkeyed: bool = False) -> list[Record]:
        return [self._record(with_unkeyed) for _ in range(self.random.randint(1, 6))]

    def _record(self, with_unkeyed: bool) -> Record:
        pick = self.random.random
        key = None if with_unkeyed and pick() < 0.2 else b"key-%d" % self.random.randrange(self.keys)
        value = (
            None if key is not None and pick() < 0.25 else self.random.randbytes(self.random.randint(0, 60))
        )
        headers = [("h", self.random.randbytes(3)), ("n", None)] if pick() < 0.2 else []
        stamp = int(time.time() * 1000) - self.random.randint(0, 5000) if pick() < 0.5 else None
        return Record(key, value, headers, stamp)


class PlainWorkload(Workload):
    """One whose passes leave the same whenever they run: no tombstones, no transactions, so no horizons.

    Its segments are small while they are written; `merged_bytes` is their size when they are cleaned.
    """

    def __init__(self, seed: int, broker: Broker, codec: str, merged_bytes: int) -> None:
        super().__init__(seed, broker)
        self.name = f"{codec}-{seed}"
        self.codec, self.is_compressed, self.keys = codec, codec != "none", 30
        self.replicas = [Replica(broker, self.name)]
        self.segment_bytes, self.merged_bytes = self.random.choice([1500, 2500]), merged_bytes
        self.config |= small_segments(broker.version, self.segment_bytes)

    def write(self, number: int, *, leave_open: bool = False) -> None:
        """As others do; the last segment that can be cleaned ends with a batch of all keys."""
        super().write(number, leave_open=leave_open)
        size = self.segment_bytes * 11 // 20 // self.keys
        # Two of these do not fit into one segment: the second one rolls.
        for _ in range(2):
            records = [Record(b"key-%d" % key, self.random.randbytes(size)) for key in range(self.keys)]
            self.serving.client.produce_steps(self.name, [records], compression_type=self.codec)
        self.set(small_segments(self.serving.version, self.merged_bytes))

    def _write(self, *, with_unkeyed: bool = False) -> None:
        for is_idempotent in (False, True):
            steps = [self._records(with_unkeyed) for _ in range(self.random.randint(8, 14))]
            self.serving.client.produce_steps(
                self.name, steps, compression_type=self.codec, enable_idempotence=is_idempotent
            )

    def _record(self, with_unkeyed: bool) -> Record:
        record = super()._record(with_unkeyed)
        return record._replace(value=record.value or self.random.randbytes(20))


# --- the brokers clean --------------------------------------------------------------------------------


def settle(workloads: Sequence[Workload]) -> None:
    """Wait until every broker has written down that all is replicated."""
    for workload in workloads:
        end = workload.leader.log_end
        for replica in workload.replicas:
            wait_until(
                lambda at=replica, to=end: at.checkpointed(REPLICATED_UP_TO) == to,  # type: ignore[misc]
                f"{workload.name} to be replicated up to {end}",
            )
            assert replica.log_end == end


def let_clean(workloads: Sequence[Workload], due: Sequence[Replica] = ()) -> None:
    """Take the ratio away, wait until the cleaners are idle, put it back.

    They are not idle as long as one that has something to do has not begun, or has something left to do.
    """
    replicas = [replica for workload in workloads for replica in workload.replicas]
    for replica in replicas:
        replica.seen = replica.broker.log_file.stat().st_size
    for workload in workloads:
        workload.set({"min.cleanable.dirty.ratio": "0.0"})
    deadline, quiet_since, seen = time.monotonic() + _MOST_SECONDS, time.monotonic(), -1
    while time.monotonic() - quiet_since < _QUIET_SECONDS and time.monotonic() < deadline:
        time.sleep(0.1)
        if not all(replica.passes() for replica in due):
            quiet_since = time.monotonic()
        count = sum(len(replica.passes()) for replica in replicas)
        if count != seen:
            seen, quiet_since = count, time.monotonic()
        elif time.monotonic() - quiet_since > _QUIET_SECONDS / 2 and _is_any_due(workloads):
            quiet_since = time.monotonic()
    for workload in workloads:
        workload.set({"min.cleanable.dirty.ratio": "1.0"})


def let_clean_all(workloads: Sequence[Workload]) -> None:
    """Take the ratio away, wait until all but the active segment is cleaned, put it back."""
    for workload in workloads:
        workload.leader.seen = workload.leader.broker.log_file.stat().st_size
        workload.set({"min.cleanable.dirty.ratio": "0.0"})
    for workload in workloads:
        active = int(max(workload.leader.directory.glob("*.log")).stem)
        # A pass is in the broker's log before it is in the checkpoint.
        wait_until(
            lambda at=workload.leader, end=active: at.checkpointed(CLEANED_UP_TO) == end,  # type: ignore[misc]
            f"{workload.name} to be cleaned up to {active}",
            300,
        )
        workload.set({"min.cleanable.dirty.ratio": "1.0"})


# --- the same by us -----------------------------------------------------------------------------------


def run_rounds(workloads: Sequence[Workload], tmp_path: Path, *, rounds: int) -> None:
    """Write, copy, let the brokers clean, clean the copies, compare; and again on what is cleaned already."""
    for workload in workloads:
        workload.create()
    total = 0
    for number in range(rounds):
        write_round(workloads, number, is_last=number == rounds - 1)
        total += clean_and_compare(workloads, tmp_path / str(number))
    assert total >= sum(len(workload.replicas) for workload in workloads)


def write_round(workloads: Sequence[Workload], number: int, *, is_last: bool) -> None:
    """Write all of them at once; every other one ends with an open transaction."""

    def write(workload: Workload) -> None:
        workload.write(number, leave_open=number > 0 and is_last and workload.seed % 2 == 0)

    with ThreadPoolExecutor(len(workloads)) as pool:
        list(pool.map(write, workloads))
    for workload in workloads:
        if number == 0:
            workload.replicate()


def clean_and_compare(workloads: Sequence[Workload], tmp_path: Path) -> int:
    """One round, in a directory that is not there yet; how many passes the brokers ran."""
    settle(workloads)
    pairs = [(workload, replica) for workload in workloads for replica in workload.replicas]
    copies = [copy_of(replica, tmp_path / f"{at}" / "copy") for at, (_workload, replica) in enumerate(pairs)]
    now_ms, both = int(time.time() * 1000), list(zip(pairs, copies, strict=True))
    let_clean(workloads, [pair[1] for pair, copy in both if _compact(*pair, copy, now_ms)["is_due"]])
    total = 0
    for (workload, replica), copy in both:
        passes = replica.passes()
        total += len(passes)
        ours = clean_copy(workload, replica, copy, passes)
        compare_whole(workload, replica, ours, len(passes))
        if passes:
            assert replica.checkpointed(CLEANED_UP_TO) == passes[-1].end
    return total


def copy_of(replica: Replica, target: Path) -> Path:
    """A log directory with nothing but this partition and the checkpoints."""
    name = replica.directory.name
    # What a pass before this left may be unlinked at any moment.
    gone = shutil.ignore_patterns("*.deleted")
    shutil.copytree(replica.directory, target / name, ignore=gone, copy_function=shutil.copy2)
    for checkpoint in (CLEANED_UP_TO, REPLICATED_UP_TO):
        if (path := replica.directory.parent / checkpoint).exists():
            shutil.copy2(path, target)
    return target


def clean_copy(workload: Workload, replica: Replica, log_dir: Path, passes: Sequence[BrokerPass]) -> Path:
    """Run the broker's passes, one command for each; returns what the last of them wrote.

    Each one begins and ends where the broker's did, and then there is nothing left that is due.
    """
    times, before_ms = _exact_times(workload, replica, log_dir), 0
    for number, one in enumerate(passes):
        # The broker looks at the clock before it says that it begins, and behind all of the pass before.
        at_ms = max((at for at in times if before_ms < at <= one.at_ms), default=one.at_ms)
        before_ms = one.at_ms
        target = log_dir.parent / f"pass-{number}"
        row = _compact(workload, replica, log_dir, at_ms, "--write-to", str(target))
        told = (row["is_due"], row["pass"], row["first_dirty"], row["end_offset"])
        assert told == (True, 1, one.first, one.end)
        shutil.copy2(log_dir / REPLICATED_UP_TO, target)
        cleaned = write_offset_checkpoint([PartitionOffset(workload.name, 0, row["end_offset"])])
        (target / CLEANED_UP_TO).write_bytes(cleaned)
        log_dir = target
    assert not _compact(workload, replica, log_dir, int(time.time() * 1000))["is_due"]
    return log_dir / replica.directory.name


def clean_in_one_run(workloads: Sequence[Workload], tmp_path: Path) -> None:
    """Let a broker whose map is tiny clean all it can, and do the same by one command on copies.

    One copy is written elsewhere, one is cleaned in place; both are the broker's log, and `verify` finds
    nothing wrong with them.
    """
    settle(workloads)
    copies = {
        (one.name, name): copy_of(one.leader, tmp_path / one.name / name)
        for one in workloads
        for name in ("read", "changed")
    }
    let_clean_all(workloads)
    for one in workloads:
        out, passes = tmp_path / one.name / "out", one.leader.passes()
        told = _told(one, one.leader, copies[one.name, "read"], *_IN_ONE_RUN, "--write-to", str(out))
        ranges = [(row["first_dirty"], row["end_offset"]) for row in told]
        assert ranges == [(each.first, each.end) for each in passes], one.name
        assert len(told) > 3, one.name
        _told(one, one.leader, copies[one.name, "changed"], *_IN_ONE_RUN, "--apply", "--offline")
        for log_dir in (out, copies[one.name, "changed"]):
            ours = log_dir / one.leader.directory.name
            compare_whole(one, one.leader, ours, len(passes))
            checked = run("verify", "--format", "ndjson", str(ours))
            assert checked.exit_code == 0, checked.stdout


_CERTAIN = {"min.compaction.lag.ms": "0", "segment.bytes": "1048576", "segment.index.bytes": "10485760"}
"""What --apply does not take from defaults; the internal size of segments goes before the other one."""
_IN_ONE_RUN = (*(f"--set={name}={value}" for name, value in {**TINY, **_CERTAIN}.items()), "--until-stable")


def _is_any_due(workloads: Sequence[Workload]) -> bool:
    """Whether a cleaner has something left to do, by what lies there now."""
    return any(_is_due(workload, replica) for workload in workloads for replica in workload.replicas)


def _is_due(workload: Workload, replica: Replica) -> bool:
    """What is being cleaned may vanish while it is read: then it is not done."""
    at_ms = int(time.time() * 1000)
    done = _run_compact(workload, replica, replica.directory.parent, "--at", str(at_ms))
    return done.exit_code != 0 or _passes_of(done)[0]["is_due"]


def _compact(
    workload: Workload, replica: Replica, log_dir: Path, at_ms: int, *options: str
) -> dict[str, Any]:
    """One run of the command; what it told of its only pass."""
    (row,) = _told(workload, replica, log_dir, "--at", str(at_ms), *options)
    return row


def _told(workload: Workload, replica: Replica, log_dir: Path, *options: str) -> list[dict[str, Any]]:
    """One run of the command; what it told of its passes."""
    done = _run_compact(workload, replica, log_dir, *options)
    assert done.exit_code == 0, done.stderr
    assert b"no high watermark" not in done.stderr
    return _passes_of(done)


def _run_compact(workload: Workload, replica: Replica, log_dir: Path, *options: str) -> Run:
    config = {**workload.config, "min.cleanable.dirty.ratio": "0.0"}
    settings = (f"--set={name}={value}" for name, value in config.items())
    server = ("--config", str(replica.broker.root / "server.properties"))
    release = ("--kafka-version", replica.broker.version)
    words = (*options, *settings, *server, *release, "--format", "ndjson")
    return run("compact", *words, str(log_dir / replica.directory.name))


def _passes_of(done: Run) -> list[dict[str, Any]]:
    return done.of("compaction")


def _exact_times(workload: Workload, replica: Replica, before: Path) -> set[int]:
    """The times of passes that set a horizon that is still there."""
    old = _horizons(before / replica.directory.name)
    delay = int(workload.config["delete.retention.ms"])
    return {one - delay for one in _horizons(replica.directory) - old}


def _horizons(directory: Path) -> set[int]:
    headers = [header for path in directory.glob("*.log") for header, _data in _pairs(path)]
    return {one.delete_horizon_ms for one in headers if one.delete_horizon_ms is not None}


def compare_whole(workload: Workload, replica: Replica, ours: Path, passes: int) -> None:
    """All files are the same, or all batches where several passes may have grouped them otherwise."""
    if passes > 1 and _has_snappy(ours) and _log_names(ours) != _log_names(replica.directory):
        assert _all_batches(ours) == _all_batches(replica.directory), (workload.name, ours)
    else:
        compare(workload, replica, ours)


def compare(workload: Workload, replica: Replica, ours: Path) -> None:
    """Names, batches and records are the same; bytes too where nothing is compressed."""
    theirs = replica.directory
    for extension in (".log", ".snapshot"):
        mine, its = _names(ours, extension), _names(theirs, extension)
        assert mine == its, (workload.name, replica.broker.log_dir, mine, its)
    for name in _log_names(theirs):
        assert [_facts(*one) for one in _pairs(ours / name)] == [
            _facts(*one) for one in _pairs(theirs / name)
        ]
    for name in _log_names(theirs)[:-1]:
        assert (ours / name).stat().st_mtime_ns // 10**6 == (theirs / name).stat().st_mtime_ns // 10**6
        if not workload.is_compressed:
            for extension in _SIDE_FILES:
                one, other = (ours / name).with_suffix(extension), (theirs / name).with_suffix(extension)
                assert one.exists() == other.exists(), extension
                assert not one.exists() or one.read_bytes() == other.read_bytes(), (name, extension)


def _has_snappy(directory: Path) -> bool:
    """Whether a later pass may group segments otherwise than the broker's.

    Our snappy is a few bytes longer or shorter than theirs, which no other codec's output is, and a pass
    groups by the sizes that the one before it left.
    """
    headers = (header for name in _log_names(directory) for header, _data in _pairs(directory / name))
    return any(header.codec_label == "snappy" for header in headers)


def _all_batches(directory: Path) -> list[tuple[object, ...]]:
    """Every batch of a log, wherever its segments end."""
    return [_facts(*one) for name in _log_names(directory) for one in _pairs(directory / name)]


def _log_names(directory: Path) -> list[str]:
    return _names(directory, ".log")


def _names(directory: Path, extension: str) -> list[str]:
    return sorted(path.name for path in directory.glob(f"*{extension}"))


def _pairs(path: Path) -> list[tuple[BatchHeader, bytes]]:
    return [
        (batch.header, bytes(batch.data or b""))
        for batch in read_batches(path)
        if isinstance(batch.header, BatchHeader)
    ]


def _facts(header: BatchHeader, data: bytes) -> tuple[object, ...]:
    """All of a batch but what its codec made of it."""
    return header._replace(crc=0, batch_length=0), tuple(records_of(header, data))
