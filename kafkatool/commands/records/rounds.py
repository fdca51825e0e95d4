"""How `cat` and `export` go through partitions: once, or in rounds without end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from kafkatool.commands.records.reading import RecordReading, Rows
from kafkatool.engine.batches.partition_walk import SegmentLog
from kafkatool.engine.batches.scan import Batch
from kafkatool.engine.batches.tail import find_tail
from kafkatool.engine.files.source import Source, open_source
from kafkatool.engine.records.stream import RecordPiece, RecordStream, Start
from kafkatool.engine.records.subject import Subject, logs_of
from kafkatool.errors import KafkatoolError

POLL_S = 0.25


class Taker(Protocol):
    """Writes some of a piece's records."""

    def write(self, piece: RecordPiece, rows: Rows) -> None: ...


class Rounds:
    """Goes through partitions until they are finished, the limit is reached, or an interrupt comes."""

    def __init__(
        self,
        reading: RecordReading,
        taker: Taker,
        limit: int | None,
        advance: Callable[[int], None] | None = None,
    ) -> None:
        self.reading = reading
        self._taker = taker
        self._left = limit
        self._advance = advance
        self._skip: dict[RecordStream, int] = {}

    def once(self, subjects: list[Subject], tail: int | None) -> None:
        for subject in subjects:
            if self._is_spent:
                return
            stream = self._stream(subject, tail, follows=False)
            if stream is not None:
                self._round(stream)

    def for_ever(
        self,
        subjects: list[Subject],
        tail: int | None,
        flush: Callable[[], None],
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        found = [self._stream(subject, tail, follows=True) for subject in subjects]
        streams = [stream for stream in found if stream is not None]
        while True:
            for stream in streams:
                self._round(stream)
                if self._is_spent:
                    return
            flush()
            sleep(POLL_S)
            for stream in streams:
                stream.look_again()

    @property
    def _is_spent(self) -> bool:
        return self._left is not None and self._left <= 0

    def _round(self, stream: RecordStream) -> None:
        if self._is_spent:
            return
        for found in stream.pieces():
            if not isinstance(found, RecordPiece):
                for event in self.reading.told_of(found):
                    self.reading.say(event)
                continue
            rows = self.reading.rows(found)
            skip = min(len(rows), self._skip.get(stream, 0))
            if skip:
                self._skip[stream] -= skip
                rows = rows[skip:]
            if self._left is not None:
                rows = rows[: self._left]
                self._left -= len(rows)
            if len(rows):
                self._taker.write(found, rows)
                self.reading.shown += len(rows)
            if self._is_spent:
                return

    def _stream(self, subject: Subject, tail: int | None, *, follows: bool) -> RecordStream | None:
        """Open a stream at the start, or at the last `tail` rows; None without any, now or later."""
        if tail is None:
            return self.reading.stream(subject, follows=follows, advance=self._advance)
        found = tail_start(self.reading, subject, tail)
        if found is None:
            return self.reading.stream(subject, follows=True) if follows else None
        start, skip = found
        stream = self.reading.stream(subject, start=start, follows=follows, advance=self._advance)
        self._skip[stream] = skip
        return stream


def tail_start(reading: RecordReading, subject: Subject, count: int) -> tuple[Start, int] | None:
    """Return where the last `count` shown records begin, and how many to skip there; None without any."""
    found: tuple[Start, int] | None = None
    logs = logs_of(subject.named)
    for log in reversed(logs):
        if found is not None and count <= 0:
            break
        try:
            source = open_source(log.path, reading.guest)
        except FileNotFoundError:
            continue
        except KafkatoolError as error:
            reading.fail(str(error))
            continue
        with source:
            if not count:
                return Start(log, source.size_hint or 0), 0
            counter = _Counter(reading, subject, log, source)
            tail = find_tail(source, log.path, reading.guest, count, counter.rows_of, reading.chosen.wanted)
        if tail.rows:
            found = Start(log, tail.position), tail.skip
            count -= tail.rows
    return found


class _Counter:
    """Counts how many records of a batch are shown."""

    def __init__(self, reading: RecordReading, subject: Subject, log: SegmentLog, source: Source) -> None:
        self._reading = reading
        self._subject = subject
        self._log = log
        self._source = source
        self._stream = self._new_stream()
        self._last_offset = -1

    def _new_stream(self) -> RecordStream:
        return self._reading.stream(self._subject, start=Start(self._log, 0))

    def rows_of(self, batch: Batch) -> int:
        if batch.header.last_offset <= self._last_offset:  # a search goes backwards, a stream does not
            self._stream = self._new_stream()
        self._last_offset = batch.header.last_offset
        pieces = self._stream.of_batch(self._log, self._source, batch)
        return sum(len(self._reading.rows(piece, counts=False)) for piece in pieces)
