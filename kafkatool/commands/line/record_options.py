"""Options that select records, and how they are parsed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.arguments import Control

if TYPE_CHECKING:
    from kafkatool.commands.line.arguments import Position
    from kafkatool.commands.line.record_filters import RecordFilter
    from kafkatool.engine.batches.seek import Range

FromOpt = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="POSITION",
        help="Start at this offset or time (inclusive): 1234, @EPOCH_MS, 2026-01-02T03:04:05Z, now-2h.",
    ),
]
ToOpt = Annotated[
    str | None,
    typer.Option("--to", metavar="POSITION", help="End at this offset or time (exclusive)."),
]
KeyOpt = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="KEY", help="Only records with this key: text, hex:… or base64:…"),
]
KeyRegexOpt = Annotated[
    str | None,
    typer.Option("--key-regex", metavar="REGEX", help="Only records whose key matches."),
]
HeaderOpt = Annotated[
    list[str] | None,
    typer.Option(
        "--header",
        metavar="NAME[=VALUE]",
        help="Only records with this header. If repeated, a record must have all of them.",
    ),
]
ProducerIdOpt = Annotated[
    int | None,
    typer.Option("--producer-id", metavar="ID", help="Only records of this producer."),
]
ControlOpt = Annotated[
    Control | None,
    typer.Option("--control", help="Show only control records, or leave them out."),
]
LimitOpt = Annotated[int | None, typer.Option("--limit", metavar="N", min=0, help="Stop after N rows.")]
TailOpt = Annotated[int | None, typer.Option("--tail", metavar="N", min=0, help="Only the last N rows.")]


@dataclass(frozen=True, slots=True)
class RecordChoice:
    """Which records are selected."""

    from_: FromOpt = None
    to: ToOpt = None
    key: KeyOpt = None
    key_regex: KeyRegexOpt = None
    header: HeaderOpt = None
    producer_id: ProducerIdOpt = None
    control: ControlOpt = None

    def filter(self) -> RecordFilter:
        """Return the filter that the options describe. Raises UsageError."""
        from kafkatool.commands.line.arguments import parse_bytes, parse_header, parse_regex
        from kafkatool.commands.line.record_filters import RecordFilter

        return RecordFilter(
            wanted=parse_range(self.from_, self.to),
            keys=frozenset(map(parse_bytes, self.key or ())),
            key_regex=parse_regex(self.key_regex) if self.key_regex is not None else None,
            headers=tuple(map(parse_header, self.header or ())),
            producer_id=self.producer_id,
            control=self.control,
        )


@dataclass(frozen=True, slots=True)
class RecordOptions(RecordChoice):
    """Which records are selected, and how many of them."""

    limit: LimitOpt = None
    tail: TailOpt = None


def parse_range(from_: str | None, to: str | None) -> Range:
    """Parse --from and --to. Raises UsageError."""
    from kafkatool.engine.batches.seek import Range

    first, last = _position(from_), _position(to)
    return Range(first.offset, last.offset, first.timestamp_ms, last.timestamp_ms)


def _position(text: str | None) -> Position:
    import time

    from kafkatool.commands.line.arguments import Position, parse_position

    return Position() if text is None else parse_position(text, time.time_ns() // 1_000_000)
