"""The options of `stats`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.options import CommonOptions
from kafkatool.commands.line.record_options import FromOpt, ToOpt, parse_range
from kafkatool.engine.stats.grouping import By
from kafkatool.errors import UsageError, unknown_word

if TYPE_CHECKING:
    from kafkatool.engine.batches.seek import Range
    from kafkatool.engine.stats.recompress import CodecChoice
    from kafkatool.engine.stats.statistics import StatsRequest

_LEVELS = {"gzip": (1, 9), "lz4": (1, 17), "zstd": (-131072, 22)}


@dataclass(frozen=True, slots=True)
class StatsOptions(CommonOptions):
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Show a sheet per row instead of one line each.")
    ] = False


@dataclass(frozen=True, slots=True)
class CountOptions:
    """What is counted, and how much of it is shown."""

    by: Annotated[By, typer.Option("--by", help="What each row describes.")] = By.PARTITION
    deep: Annotated[
        bool,
        typer.Option(
            "--deep", help="Also decode every record: keys, sizes, tombstones, ratios, exact times."
        ),
    ] = False
    from_: FromOpt = None
    to: ToOpt = None
    what_if: Annotated[
        str | None,
        typer.Option(
            "--what-if",
            metavar="CODECS",
            help="Recompress a sample of the batches and show what that would save: "
            "zstd,lz4,gzip,snappy,none; zstd:9 is level 9. In tables and NDJSON.",
        ),
    ] = None
    now: Annotated[
        str | None,
        typer.Option(
            "--at",
            "--now",
            metavar="TIME",
            help="Count later timestamps as in the future. By default now.",
        ),
    ] = None
    top: Annotated[
        int, typer.Option("--top", metavar="N", min=0, max=1000, help="Number of keys and prefixes to list.")
    ] = 10
    redact: Annotated[
        bool, typer.Option("--redact", help="Show hashes instead of keys, and no prefixes.")
    ] = False

    def now_ms(self) -> int:
        """Return the time that counts as now; the clock is read after listing, so that no file is newer."""
        from time import time_ns

        from kafkatool.commands.line.arguments import parse_time

        clock = time_ns() // 1_000_000
        return clock if self.now is None else parse_time(self.now, clock)

    def codecs(self) -> list[CodecChoice]:
        """Parse --what-if. Raises UsageError."""
        return [] if self.what_if is None else _choices(self.what_if)

    def wanted(self) -> Range:
        """Return the range to count. Raises UsageError."""
        return parse_range(self.from_, self.to)

    def request(self) -> StatsRequest:
        """Return the request for the engine. Raises UsageError."""
        from kafkatool.engine.stats.statistics import StatsRequest

        return StatsRequest(self.now_ms(), self.by, self.deep)


def _choices(text: str) -> list[CodecChoice]:
    """Parse --what-if. Raises UsageError."""
    from kafkatool.engine.stats.recompress import CodecChoice
    from kafkatool.format.batch import Codec

    codecs = {codec.label: codec for codec in Codec}
    choices = []
    for word in text.split(","):
        name, colon, level = word.strip().partition(":")
        if name not in codecs:
            raise unknown_word("--what-if", word, codecs)
        choices.append(CodecChoice(codecs[name], _level(name, level) if colon else None))
    return list(dict.fromkeys(choices))


def _level(name: str, text: str) -> int:
    least, greatest = _LEVELS.get(name, (0, -1))
    try:
        level = int(text)
    except ValueError:
        level = greatest + 1
    if not least <= level <= greatest:
        known = f"has levels {least} to {greatest}" if name in _LEVELS else "has no levels"
        raise UsageError(f"--what-if {name}:{text}: {name} {known}")
    return level
