"""The `.snapshot` files of a partition: producer state at the offset in the name, for fast loading."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from kafkatool.engine.broker.producer_state import ProducerStates
from kafkatool.engine.files.disk import Files
from kafkatool.engine.files.whole_files import write_file
from kafkatool.errors import FormatError
from kafkatool.format.names import segment_file
from kafkatool.format.state.producer_snapshot import read_snapshot, write_snapshot

_NAME = re.compile(r"(\d{20})\.snapshot")


class Snapshots:
    """All snapshots of one directory; `last_offset` is that of the state last taken or loaded."""

    def __init__(self, files: Files, directory: str) -> None:
        self.last_offset = 0
        self.has_new_names = False
        self._files = files
        self._directory = directory

    def offsets(self) -> list[int]:
        names = map(_NAME.fullmatch, os.listdir(self._directory))
        return sorted(int(match[1]) for match in names if match)

    def path(self, offset: int) -> str:
        return os.path.join(self._directory, segment_file(offset, ".snapshot"))

    def take(self, states: ProducerStates) -> None:
        """Write a snapshot of the state, unless there is one at least as new."""
        if states.end_offset <= self.last_offset:
            return
        self.delete(states.end_offset)
        write_file(self._files, self.path(states.end_offset), write_snapshot(states.rows()))
        self.last_offset = states.end_offset
        self.has_new_names = True

    def load_newest(self, states: ProducerStates, log_start_offset: int, now_ms: int) -> None:
        """Load the newest readable snapshot; remove unreadable ones, as a broker does."""
        for offset in reversed(self.offsets()):
            try:
                with open(self.path(offset), "rb") as file:
                    rows = read_snapshot(file.read())
            except FormatError:
                self.delete(offset)
                continue
            states.load(rows, offset, now_ms)
            self.last_offset = offset
            return
        states.clear(log_start_offset)
        self.last_offset = log_start_offset

    def drop_outside(self, log_start_offset: int, log_end_offset: int) -> None:
        """Remove snapshots at or below the log start offset, or above the log end offset."""
        for offset in self.offsets():
            if offset > log_end_offset or offset <= log_start_offset:
                self.delete(offset)

    def drop_strays(self, bases: Iterable[int]) -> None:
        """Keep snapshots at the base of a segment; of the others, only the newest, if no base is above it."""
        known = set(bases)
        strays = [offset for offset in self.offsets() if offset not in known]
        newest = strays[-1:] if strays and known and strays[-1] >= max(known) else []
        for offset in strays:
            if offset not in newest:
                self.delete(offset)

    def delete(self, offset: int) -> None:
        if os.path.exists(self.path(offset)):
            self._files.unlink(self.path(offset))
            self.has_new_names = True
