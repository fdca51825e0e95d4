"""Look for an offset or a time in everything that the user named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kafkatool.engine.directory.locate import Located, Search, SearchStep, search_in
from kafkatool.engine.directory.log_dir import ListingProblem, Partition, read_files, with_logs
from kafkatool.engine.directory.selection import Selection
from kafkatool.engine.directory.targets import FileTarget, Target
from kafkatool.engine.files.source import Guest
from kafkatool.errors import UsageError


@dataclass(frozen=True, slots=True)
class LookupRequest:
    """The offset or the time to find."""

    offset: int | None
    time_ms: int | None
    explain: bool = False


@dataclass(slots=True)
class Lookup:
    """The answer of one partition."""

    partition: Partition
    search: Search
    request: LookupRequest
    found: Located | None = None
    _steps: list[SearchStep] = field(default_factory=list)

    def run(self) -> None:
        if self.request.explain:
            self.search.observe = self._steps.append
        if self.request.offset is not None:
            self.found = self.search.offset(self.request.offset)
        elif self.request.time_ms is not None:
            self.found = self.search.time(self.request.time_ms)

    @property
    def is_below(self) -> bool:
        """Whether the offset is no longer in the log."""
        return self.request.offset is not None and self.request.offset < self.search.log_start

    def steps(self) -> list[SearchStep]:
        """Walk the whole log, and return this step after those of the search."""
        self.search.whole_walk(offset=self.request.offset, time_ms=self.request.time_ms)
        return self._steps


def look_up(
    targets: list[Target], request: LookupRequest, guest: Guest, problems: list[ListingProblem]
) -> Iterator[Lookup]:
    """Yield one answer per partition; what could not be listed or read is added to `problems`."""
    for partition, search in _searches(targets, guest, problems):
        one = Lookup(partition, search, request)
        one.run()
        yield one


def _searches(
    targets: list[Target], guest: Guest, problems: list[ListingProblem]
) -> Iterator[tuple[Partition, Search]]:
    """Yield one search per partition; a log that was named itself is searched alone."""
    selection, seen = Selection(targets, guest), set[FileTarget]()
    problems += [problem for log_dir in selection.log_dirs for problem in log_dir.problems]
    for target in targets:
        for place in selection.places_of(target, problems, by_name=True):
            log_dir = place.log_dir or selection.log_dir_of(target.path)
            log_start = log_dir.log_starts.get(place.partition.key)
            yield place.partition, search_in(place.partition, guest, log_start)
        if isinstance(target, FileTarget):
            file = with_logs([target])[-1]  # a named index stands for its log
            if file not in seen:
                yield from _search_alone(file, guest, problems)
            seen.add(file)


def _search_alone(
    file: FileTarget, guest: Guest, problems: list[ListingProblem]
) -> Iterator[tuple[Partition, Search]]:
    for partition in read_files([file], problems):
        if not partition.live_segments:
            raise UsageError(f"{file.path}: no log in use, and none beside it: name a log or its directory")
        yield partition, search_in(partition, guest)
