"""What kafka-dump-log says on stderr: single lines as it goes, and the reports at the end of a run.

    up to 4.2  pairs of an index or a log are printed newest first
    from 4.3   by offset, of equal offsets only the last pair: an index's from the highest down, a log's
               from the lowest up; and a time index whose offsets were not found is named

Files come in the order in which their first line was gathered; Kafka's order is that of a hash table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kafkatool.commands.dump_log.classic.java_paths import java_absolute_path, java_path
from kafkatool.commands.dump_log.classic.pairs import Pair, Pairs
from kafkatool.format.release import Release

ByFile = dict[str, Pairs]


class Reports:
    """Gathers the pairs of a run; `say` gets every line, without its end, when Kafka would print it."""

    def __init__(self, release: Release, say: Callable[[str], None]) -> None:
        self.release = release
        self.say = say
        self._index_mismatches: ByFile = {}
        self._time_mismatches: ByFile = {}
        self._out_of_order: ByFile = {}
        self._not_found: ByFile = {}
        self._non_consecutive: ByFile = {}

    def unknown_file(self, path: str) -> None:
        self.say(f"Ignoring unknown file {java_path(path)}")

    def index_mismatch(self, path: str, index_offset: int, log_offset: int) -> None:
        _add(self._index_mismatches, path, (index_offset, log_offset))

    def time_mismatch(self, path: str, index_timestamp: int, log_timestamp: int) -> None:
        _add(self._time_mismatches, path, (index_timestamp, log_timestamp))

    def out_of_order(self, path: str, timestamp: int, previous: int) -> None:
        _add(self._out_of_order, path, (timestamp, previous))

    def offset_not_found(self, path: str, index_offset: int, log_offset: int) -> None:
        _add(self._not_found, path, (index_offset, log_offset))

    def non_consecutive(self, path: str, previous: int, offset: int) -> None:
        _add(self._non_consecutive, path, (previous, offset))

    def finish(self) -> None:
        """Print everything that was gathered, in Kafka's order."""
        for line in self._lines():
            self.say(line)

    def _lines(self) -> Iterator[str]:
        for path, pairs in self._index_mismatches.items():
            yield f"Mismatches in :{path}"
            for index_offset, log_offset in self._ordered(pairs, descending=True):
                yield f"  Index offset: {index_offset}, log offset: {log_offset}"
        yield from self._time_lines()
        for path, pairs in self._non_consecutive.items():
            yield f"Non-consecutive offsets in {path}"
            for previous, offset in self._ordered(pairs, descending=False):
                yield f"  {previous} is followed by {offset}"

    def _time_lines(self) -> Iterator[str]:
        for path, pairs in self._time_mismatches.items():
            yield f"Found timestamp mismatch in :{path}"
            yield from (f"  Index timestamp: {index}, log timestamp: {log}" for index, log in pairs)
        for path, pairs in self._out_of_order.items():
            yield f"Found out of order timestamp in :{path}"
            yield from (
                f"  Index timestamp: {now}, Previously indexed timestamp: {was}" for now, was in pairs
            )
        for path, pairs in self._not_found.items():
            place = "the log." if self.release < Release.V4_3 else f":{path}"
            yield f"The following indexed offsets are not found in {place}"
            yield from (f"Indexed offset: {index}, found log offset: {log}" for index, log in pairs)

    def _ordered(self, pairs: Pairs, *, descending: bool) -> Iterable[Pair]:
        if self.release < Release.V4_3:
            return reversed(pairs)
        if pairs.is_rising:
            return reversed(pairs) if descending else pairs
        return sorted(dict(pairs).items(), reverse=descending)


def _add(by_file: ByFile, path: str, pair: Pair) -> None:
    by_file.setdefault(java_absolute_path(path), Pairs()).add(*pair)
