"""The request of one run of dump-log, and how its files are opened and walked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from kafkatool.commands.dump_log.classic.options import ClassicOptions
from kafkatool.commands.line.record_filters import RecordFilter
from kafkatool.commands.rows.batches import LogPlace
from kafkatool.commands.screen.outcome import RunOutcome
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import BytesFormat
from kafkatool.engine.batches.damage import Damage
from kafkatool.engine.batches.in_flight import in_flight
from kafkatool.engine.batches.scan import Batch, BatchRun, scan_runs
from kafkatool.engine.batches.seek import walk_range
from kafkatool.engine.batches.tail import Tail, find_tail
from kafkatool.engine.files.source import Guest, Source, open_source, open_stdin
from kafkatool.engine.files.stdin_log import STDIN
from kafkatool.errors import FormatError, KafkatoolError, TooLarge
from kafkatool.format.batch import MAX_INT32, BatchHeader
from kafkatool.format.kinds import FileKind, kind_of
from kafkatool.format.legacy import LegacyMessage, read_messages
from kafkatool.format.names import METADATA_TOPIC
from kafkatool.format.record import Record, read_records
from kafkatool.format.schema import Decoder

AnyRecord = Record | LegacyMessage
EVERYTHING = RecordFilter()
_Item = TypeVar("_Item", bound=BatchRun | Batch)


@dataclass(frozen=True, slots=True)
class DumpRequest:
    """The flags of kafka-dump-log, and further options."""

    classic: ClassicOptions
    talk: Talk
    chosen: RecordFilter = EVERYTHING
    limit: int | None = None
    tail: int | None = None
    raw: bool = False
    how: BytesFormat = BytesFormat.utf8
    read_as: dict[str, FileKind] = field(default_factory=dict)
    """The kinds to read files as, where names give none or another one."""

    def kind(self, path: str) -> FileKind:
        return self.read_as.get(path) or kind_of(os.path.basename(path)).kind

    @property
    def guest(self) -> Guest:
        return self.classic.guest

    @property
    def takes_everything(self) -> bool:
        """Whether no filter is set that could leave something out."""
        return self.chosen == EVERYTHING

    @property
    def shows_records(self) -> bool:
        return self.classic.deep_iteration or self.chosen.asks_for_records

    def records(self, batch: Batch) -> Iterator[AnyRecord]:
        """Yield the matching records of a batch. Raises FormatError after the last good one."""
        if not self.chosen.takes_batch(batch):
            return
        for record in self._all_records(batch):
            if self.chosen.takes(record, batch):
                yield record

    def _all_records(self, batch: Batch) -> Iterator[AnyRecord]:
        if batch.data is None:
            raise TooLarge(
                "batch", batch.position, expected=f"at most {self.classic.max_batch_size} bytes", found="more"
            )
        if isinstance(batch.header, BatchHeader):
            return read_records(batch.header, batch.data, max_inflated=self.classic.max_inflated)
        return read_messages(batch.data, max_inflated=self.classic.max_inflated)

    def rows_in(self, batch: Batch) -> int:
        """Return how many rows a batch will give."""
        if not self.shows_records:
            return 1
        count = 0
        try:
            for _ in self.records(batch):
                count += 1
        except FormatError:
            pass  # reported when the rows are shown
        return count

    def walk(self, source: Source, path: str, tail: Tail | None, *, chain: bool) -> Iterator[Batch | Damage]:
        """Return the batches that may match, and the damage among them."""
        walk = walk_range(
            source,
            path,
            self.chosen.wanted,
            self.guest,
            chain=chain,
            start=None if tail is None else tail.position,
            end=self._end,
            max_batch_size=self.classic.max_batch_size,
        )
        return self._judged(walk, source)

    def runs(self, source: Source, *, chain: bool) -> Iterator[BatchRun | Batch | Damage]:
        """Return all batches, if all were asked for, as many at once as possible."""
        most = self.classic.max_batch_size
        return self._judged(scan_runs(source, end=self._end, chain=chain, max_batch_size=most), source)

    def _judged(self, walk: Iterator[_Item | Damage], source: Source) -> Iterator[_Item | Damage]:
        """Yield the same items; unfinished writes become notes, and the cut by --max-bytes is left out."""
        for item in walk:
            if not isinstance(item, Damage):
                yield item
            elif not _cut_by_us(item, self):
                yield in_flight(item, source)

    @property
    def _end(self) -> int | None:
        return None if self.classic.max_bytes == MAX_INT32 else self.classic.max_bytes


class Quota:
    """Counts rows: skips the first ones of a tail, and stops at the limit."""

    def __init__(self, limit: int | None) -> None:
        self._left = limit
        self.skip = 0
        self.shown = 0

    @property
    def is_spent(self) -> bool:
        return self._left == 0

    def take(self) -> bool:
        """Return whether to show the next row."""
        if self.skip:
            self.skip -= 1
            return False
        if self._left == 0:
            return False
        if self._left is not None:
            self._left -= 1
        self.shown += 1
        return True


@contextmanager
def opened(path: str, request: DumpRequest, outcome: RunOutcome) -> Iterator[Source | None]:
    """Open a path; None, reported on stderr, if it cannot be opened. Changes while reading are reported."""
    try:
        source = (
            open_stdin(request.guest)
            if path == STDIN
            else open_source(path, request.guest, allow_pipe=path in outcome.named)
        )
    except FileNotFoundError:
        if path in outcome.named:
            request.talk.warn(f"{path}: no such file")
            outcome.failed = True
        else:
            request.talk.note(f"{path}: deleted since its directory was listed")
        yield None
        return
    except KafkatoolError as error:
        request.talk.warn(str(error))
        outcome.failed = True
        yield None
        return
    with source:
        yield source
        if source.changed:
            request.talk.note(f"{path}: {source.changed}")
        if source.unreadable:
            request.talk.warn(f"{path}: the disk fails: image it before doing anything else")


def _cut_by_us(damage: Damage, request: DumpRequest) -> bool:
    """Return whether --max-bytes made the file seem to end within a batch, which is not damage."""
    return damage.ends_chain and not damage.throws and damage.end_position == request.classic.max_bytes


def warn_of_secrets(request: DumpRequest, place: LogPlace) -> None:
    """Warn that metadata can hold credentials, before the first of it is shown."""
    options = request.classic
    is_metadata = place.topic == METADATA_TOPIC or options.decoder is Decoder.CLUSTER_METADATA
    if is_metadata and options.print_data_log and not options.redact:
        request.talk.warn(f"{place.path}: may show credentials and sensitive configs; --redact hides them")


def tails(group: list[str], request: DumpRequest, outcome: RunOutcome) -> dict[str, Tail]:
    """Return where the last rows of one partition begin, for each of its files that has some of them."""
    found: dict[str, Tail] = {}
    missing = request.tail or 0
    for path in reversed(group):
        if missing <= 0:
            break
        with opened(path, request, outcome) as source:
            if source is None:
                continue
            tail = find_tail(source, path, request.guest, missing, request.rows_in, request.chosen.wanted)
        if tail.rows:
            found[path] = tail
            missing -= tail.rows
    return found
