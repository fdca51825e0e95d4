"""Select topics and partitions: `--topic`, `--partition`, `--exclude-topic`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kafkatool.errors import UsageError

_REGEX = "re:"
_NUMBERS = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class PartitionFilter:
    """A filter; an empty one takes everything. Exclusion overrides everything else."""

    topics: tuple[re.Pattern[str], ...] = ()
    excluded: tuple[re.Pattern[str], ...] = ()
    numbers: tuple[range, ...] = ()

    @property
    def takes_everything(self) -> bool:
        return self == EVERYTHING

    def takes(self, topic: str | None, number: int | None) -> bool:
        """Whether a partition is selected; an unknown topic counts as an empty name."""
        name = topic or ""
        return (
            (not self.topics or any(one.fullmatch(name) for one in self.topics))
            and not any(one.fullmatch(name) for one in self.excluded)
            and (not self.numbers or any(number in one for one in self.numbers))
        )


EVERYTHING = PartitionFilter()


def parse_partition_filter(
    topics: Iterable[str] = (), partitions: Iterable[str] = (), excluded: Iterable[str] = ()
) -> PartitionFilter:
    """Parse topic names, or `re:` with a pattern for the whole name, and partition numbers as in `0,3,5-9`.

    Raises UsageError.
    """
    return PartitionFilter(
        tuple(_name(text) for text in topics),
        tuple(_name(text) for text in excluded),
        tuple(numbers for text in partitions for numbers in _numbers(text)),
    )


def _name(text: str) -> re.Pattern[str]:
    if not text.startswith(_REGEX):
        return re.compile(re.escape(text))
    try:
        return re.compile(text.removeprefix(_REGEX))
    except re.error as error:
        raise UsageError(f"{text}: not a regular expression: {error}") from None


def _numbers(text: str) -> Sequence[range]:
    found = [_NUMBERS.fullmatch(one.strip()) for one in text.split(",")]
    ranges = [range(int(one[1]), int(one[2] or one[1]) + 1) for one in found if one is not None]
    if len(ranges) < len(found) or not all(ranges):
        raise UsageError(f"{text}: not numbers of partitions: write for example 0,3,5-9")
    return ranges
