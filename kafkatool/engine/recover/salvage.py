"""Copy out the good batches that a recovery would discard, for reading; never as a replica.

What is lost between them may have begun, ended or changed any transaction: those are listed with what is
known about them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from kafkatool.engine.batches.scan import Batch, scan
from kafkatool.engine.broker.producer_state import read_marker
from kafkatool.engine.files.disk import File, Files
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.engine.recover.result import Recovered
from kafkatool.errors import FormatError, Refused
from kafkatool.format.legacy import Header
from kafkatool.format.names import segment_file


@dataclass(frozen=True, slots=True)
class Unprovable:
    """A transaction whose outcome is unknown because of the hole."""

    producer_id: int
    first_offset: int
    last_offset: int | None
    message: str


@dataclass(slots=True)
class Salvaged:
    """What was copied."""

    directory: str
    files: list[str] = field(default_factory=list)
    batches: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    transactions: list[Unprovable] = field(default_factory=list)


def salvage(recovered: Recovered, target: str, files: Files, guest: Guest) -> Salvaged:
    """Copy the good batches after the damage into a new directory, one file per log.

    Raises Refused unless the directory is new and outside the log directory.
    """
    log_dir = os.path.dirname(os.path.realpath(recovered.path))
    if (os.path.realpath(target) + os.sep).startswith(log_dir + os.sep):
        raise Refused(f"{target}: must not lie inside the log directory {log_dir}")
    if os.path.lexists(target):
        raise Refused(f"{target}: already exists; name a directory that is not")
    files.make_directory(target)
    result = Salvaged(target)
    books = _Books(recovered.open_transactions)
    for path, position in recovered.cuts:
        _copy(path, position, result, books, files, guest)
    files.sync_directory(target)
    files.sync_directory(os.path.dirname(os.path.abspath(target)))
    result.transactions = books.unprovable()
    return result


def _copy(path: str, position: int, result: Salvaged, books: _Books, files: Files, guest: Guest) -> None:
    out: File | None = None
    end = 0
    try:
        for batch in _good(path, position, guest):
            header = batch.header
            first = header.base_offset
            if out is None:
                name = os.path.join(result.directory, segment_file(first, ".log"))
                out = files.create(name)
                result.files.append(name)
            assert batch.data is not None
            out.write_at(end, batch.data)
            end += len(batch.data)
            result.batches += 1
            result.first_offset = first if result.first_offset is None else result.first_offset
            result.last_offset = header.last_offset
            books.count(batch)
        if out is not None:
            out.sync()
    finally:
        if out is not None:
            out.close()


def _good(path: str, position: int, guest: Guest) -> Iterator[Batch]:
    with open_source(path, guest) as source:
        for item in scan(source, position):
            if isinstance(item, Batch) and item.is_valid and item.data is not None:
                yield item


class _Books:
    """Transactions on both sides of the hole."""

    def __init__(self, open_before: dict[int, int]) -> None:
        self._open_before = {producer: first for first, producer in open_before.items()}
        self._known: set[int] = set()  # producers whose transactions after the hole are fully known
        self._open: dict[int, tuple[int, int]] = {}
        self._found: list[Unprovable] = []

    def count(self, batch: Batch) -> None:
        header = batch.header
        if header.producer_id < 0:
            return
        producer = header.producer_id
        if header.is_control:
            self._end(batch, header)
        elif header.is_transactional:
            first, _last = self._open.get(producer, (header.base_offset, 0))
            self._open[producer] = (first, header.last_offset)

    def _end(self, batch: Batch, header: Header) -> None:
        producer = header.producer_id
        assert batch.data is not None
        try:
            marker = read_marker(header, batch.data)
        except FormatError:
            marker = None
        if marker is None:
            return
        opened = self._open.pop(producer, None)
        if producer not in self._known:
            # Between the hole and a producer's first marker, the start of its transaction is unknown.
            word = "aborted" if marker.is_abort else "committed"
            before = self._open_before.pop(producer, None)
            first = before if before is not None else opened[0] if opened else header.base_offset
            text = f"{word} at {header.base_offset}; what of it lay in the hole, or ended there, is unknown"
            self._found.append(Unprovable(producer, first, header.base_offset, text))
        self._known.add(producer)

    def unprovable(self) -> list[Unprovable]:
        found = list(self._found)
        for producer, (first, last) in self._open.items():
            found.append(Unprovable(producer, first, last, "its end is not in what is left"))
            self._open_before.pop(producer, None)
        for producer, first in self._open_before.items():
            found.append(
                Unprovable(producer, first, None, "open where the log is cut; its end was in the hole")
            )
        return sorted(found, key=lambda one: one.first_offset)
