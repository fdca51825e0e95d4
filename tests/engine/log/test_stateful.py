"""The log against a plain list of batches: append, roll, read, truncate, reopen, in any order."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafkatool.engine.batches.records import records_of
from kafkatool.engine.broker.refusals import OffsetOutOfRange, UnexpectedOffset
from kafkatool.engine.cluster.topic_config import read_config
from kafkatool.engine.files.disk import Disk
from kafkatool.engine.log.loading import LeftLog, open_log
from kafkatool.engine.log.partition_log import Log
from kafkatool.engine.log.reading import offset_for_time, read, records
from kafkatool.engine.log.validation import split_batches
from kafkatool.format.batch import Codec, NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.legacy import write_message, write_wrapper
from kafkatool.format.record import Record
from kafkatool.format.release import Release
from tests.memory import MEMORY

NOW = 1_700_000_000_000
CONFIGS = [
    {"segment.bytes": "400", "index.interval.bytes": "0"},
    {"segment.bytes": "100000", "segment.index.bytes": "40", "index.interval.bytes": "100"},
    {"segment.bytes": "100000", "segment.index.bytes": "4", "index.interval.bytes": "0"},
    {"segment.bytes": "1000", "segment.ms": "50", "index.interval.bytes": "150"},
    {"segment.bytes": "700", "message.timestamp.type": "LogAppendTime", "flush.messages": "3"},
    {"segment.bytes": "900", "preallocate": "true", "index.interval.bytes": "100"},
]
sizes = st.lists(st.tuples(st.integers(0, 60), st.integers(-200, 200)), min_size=1, max_size=4)


class LogMachine(RuleBasedStateMachine):
    """`batches` is the truth: (base offset, last offset, bytes)."""

    @initialize(config=st.sampled_from(CONFIGS))
    def begin(self, config: dict[str, str]) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="kafkatool-log-", dir=MEMORY))
        self.config = read_config(config, Release.V3_9)
        self.batches: list[tuple[int, int, bytes]] = []
        self.end = 0
        self.now = NOW
        self.log = self.open(LeftLog())

    def open(self, left: LeftLog) -> Log:
        return open_log(Disk(), str(self.root / "t-0"), self.config, now_ms=self.now, left=left)

    def teardown(self) -> None:
        if hasattr(self, "root"):
            self.log.abandon()
            shutil.rmtree(self.root)

    # --- what is done ---------------------------------------------------------------------------------

    @rule(rows=sizes, codec=st.sampled_from([Codec.NONE, Codec.GZIP]))
    def append_as_leader(self, rows: list[tuple[int, int]], codec: Codec) -> None:
        self.now += 10
        data = write_batch(
            [NewRecord(b"k", b"v" * size, self.now + late) for size, late in rows], codec=codec
        )
        done = self.log.append_as_leader(data, leader_epoch=0, now_ms=self.now)
        assert done is not None
        assert (done.first_offset, done.last_offset) == (self.end, self.end + len(rows) - 1)
        self.remember(self.bytes_at(done.first_offset))

    @rule(
        groups=st.lists(sizes, min_size=1, max_size=6),
        gap=st.sampled_from([0, 0, 0, 1, 7, 1 << 31, (1 << 31) + 5]),
    )
    def append_as_follower(self, groups: list[list[tuple[int, int]]], gap: int) -> None:
        self.now += 10
        at, data = self.end + gap, []
        for rows in groups:
            records = [NewRecord(b"k", b"v" * size, self.now + late) for size, late in rows]
            data.append(write_batch(records, base_offset=at, partition_leader_epoch=0))
            at += len(rows)
        if len(b"".join(data)) > self.config.segment_bytes:
            data = data[:1]
        self.log.append_as_follower(b"".join(data), now_ms=self.now)
        for batch in data:
            self.remember(batch)

    @rule(rows=sizes, magic=st.sampled_from([0, 1]))
    def append_old_messages_as_leader(self, rows: list[tuple[int, int]], magic: int) -> None:
        self.now += 10
        done = self.log.append_as_leader(
            b"".join(self.old_messages(rows, 0, magic)), leader_epoch=0, now_ms=self.now
        )
        assert done is not None
        assert (done.first_offset, done.last_offset) == (self.end, self.end + len(rows) - 1)
        self.remember(self.bytes_at(done.first_offset))

    @rule(rows=sizes, magic=st.sampled_from([0, 1]), is_wrapped=st.booleans(), gap=st.sampled_from([0, 0, 3]))
    def append_old_messages_as_follower(
        self, rows: list[tuple[int, int]], magic: int, is_wrapped: bool, gap: int
    ) -> None:
        self.now += 10
        data = self.old_messages(rows, self.end + gap, magic)
        if is_wrapped:
            latest = self.now + max(late for _, late in rows)
            data = [write_wrapper(data, Codec.GZIP, magic=magic, timestamp_ms=latest)]
        self.log.append_as_follower(b"".join(data), now_ms=self.now)
        for batch in data:
            self.remember(batch)

    def old_messages(self, rows: list[tuple[int, int]], offset: int, magic: int) -> list[bytes]:
        return [
            write_message(offset + at, b"k", b"v" * size, magic=magic, timestamp_ms=self.now + late)
            for at, (size, late) in enumerate(rows)
        ]

    @rule()
    def a_batch_below_the_end_is_refused(self) -> None:
        if self.end:
            with pytest.raises(UnexpectedOffset):
                self.log.append_as_follower(
                    write_batch([NewRecord(None, b"")], base_offset=self.end - 1), now_ms=self.now
                )

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now)

    @rule()
    def flush(self) -> None:
        self.log.flush(self.now)
        assert self.log.recovery_point >= self.end

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        offset = int(self.end * share)
        self.log.truncate_to(offset, self.now)
        self.batches = [batch for batch in self.batches if batch[1] < offset]
        self.end = min(self.end, offset)

    @rule(clean=st.booleans(), trust=st.booleans())
    def reopen(self, clean: bool, trust: bool) -> None:
        point = self.log.recovery_point if trust else 0
        if clean:
            self.log.close()
        else:
            self.log.abandon()
        before = self.log.producers.rows()
        self.log = self.open(LeftLog(point, is_clean=clean))
        # A cut in the middle of a batch is forgotten; an empty segment holds its place.
        base = self.log.segments[-1].base_offset
        self.end = max(self.batches[-1][1] + 1 if self.batches else 0, base)
        assert self.log.producers.rows() == before

    # --- what must hold -------------------------------------------------------------------------------

    def remember(self, data: bytes) -> None:
        [batch] = split_batches(data)
        self.batches.append((batch.header.base_offset, batch.header.last_offset, data))
        self.end = batch.header.last_offset + 1

    def bytes_at(self, offset: int) -> bytes:
        fetched = read(self.log, offset, max_bytes=1)
        assert fetched.base_offset == offset
        return fetched.data

    @invariant()
    def the_log_ends_where_the_list_ends(self) -> None:
        if hasattr(self, "log"):
            assert self.log.log_end_offset == self.end
            bases = [segment.base_offset for segment in self.log.segments]
            assert bases == sorted(set(bases))
            assert bases[-1] <= self.end

    @rule(share=st.floats(0, 1), max_bytes=st.integers(1, 500))
    def read_somewhere(self, share: float, max_bytes: int) -> None:
        offset = int(self.end * share)
        expected = [data for _, last, data in self.batches if last >= offset]
        got = read(self.log, offset, max_bytes=max_bytes).data
        assert b"".join(expected).startswith(got)
        assert bool(got) == bool(expected)
        if expected:
            assert len(got) >= len(expected[0])

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def look_up_a_time(self, data: st.DataObject) -> None:
        rows = self.rows()
        wanted = data.draw(st.sampled_from(rows)).timestamp_ms
        if any(segment.accounting.max_timestamp < 0 for segment in self.log.segments[:-1]) or wanted < 0:
            return  # a segment's time is then its file's, and the search ends there, as a broker's does
        found = offset_for_time(self.log, wanted)
        # The broker's answer: the first such record, as segments are passed over by their largest time.
        first = next(row for row in rows if row.timestamp_ms >= wanted)
        assert found is not None
        assert (found.offset, found.timestamp_ms) == (first.offset, first.timestamp_ms)

    def rows(self) -> list[Record]:
        return [
            row
            for _, _, data in self.batches
            for batch in split_batches(data)
            for row in records_of(batch.header, batch.data)
        ]

    @rule()
    def read_everything(self) -> None:
        assert list(records(self.log, 0, max_bytes=300)) == self.rows()
        with pytest.raises(OffsetOutOfRange):
            read(self.log, self.end + 1, max_bytes=1)


LogMachine.TestCase.settings = settings(max_examples=50, stateful_step_count=20)
TestLogAgainstAList = LogMachine.TestCase
