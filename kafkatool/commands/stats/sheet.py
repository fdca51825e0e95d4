"""All facts about one group, on a sheet of 80 columns: small tables with bars, and lines of facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from kafkatool.commands.rows.stats import (
    StatsRow,
    bar,
    codec_rows,
    hidden,
    name_of,
    rates,
    share_text,
    spread_row,
    times_of,
)
from kafkatool.commands.screen.table import Column, Look, Table
from kafkatool.commands.screen.values import BytesFormat, bytes_text, human_size, iso_time, printable
from kafkatool.engine.jobs.sketches import WIDTHS_MS
from kafkatool.engine.stats.facts import Deep, Stats
from kafkatool.engine.stats.recompress import WhatIf
from kafkatool.engine.stats.statistics import StatsGroup
from kafkatool.format.batch import TimestampType

MOST_STRETCHES = 24
_LABEL = 12
_WIDTH_TITLES = ("HOUR", "6 HOURS", "DAY", "7 DAYS", "28 DAYS", "364 DAYS")
_KEY_WIDTH = 32


@dataclass(frozen=True, slots=True)
class Style:
    """How values are written."""

    raw: bool = False
    how: BytesFormat = BytesFormat.utf8
    redact: bool = False
    top: int = 10

    def size(self, size: float) -> str:
        return str(round(size)) if self.raw else human_size(round(size))

    def time(self, time_ms: int | None) -> str:
        return str(time_ms) if self.raw else iso_time(time_ms)

    def key(self, key: bytes, is_cut: bool = False) -> str:
        text = bytes_text(key, self.how) or '""'
        if len(text) > _KEY_WIDTH:
            text, is_cut = text[: _KEY_WIDTH - 1], True
        return f"{text}…" if is_cut else text


def write_sheet(group: StatsGroup, results: list[WhatIf], style: Style, out: TextIO) -> None:
    stats = group.stats
    out.write(f"{printable(name_of(group))}: {_measure(group, style)}\n")
    blocks = [
        _block(_SPREAD_COLUMNS, _spreads(stats, style), style),
        _block(_CODEC_COLUMNS + (() if stats.deep is None else (_RATIO_COLUMN,)), _codecs(stats), style),
        "".join(_facts(stats, style)),
        _block(_time_columns(stats), _stretches(stats, style), style),
    ]
    if stats.deep is not None:
        top = style.top
        blocks.append(_block(_key_columns("KEY", stats.deep), _keys(stats.deep, style, top), style))
        if not style.redact:
            rows = _prefixes(stats.deep, style, top)
            blocks.append(_block(_key_columns("KEYS THAT BEGIN WITH", stats.deep), rows, style))
    blocks.append(_block(_WHAT_IF_COLUMNS, _what_ifs(stats, results, style), style))
    out.writelines(f"\n{block}" for block in blocks if block)


def _measure(group: StatsGroup, style: Style) -> str:
    stats = group.stats
    parts = [_count(group.partitions, "partition")] if group.by is None or group.partitions > 1 else []
    parts += [_count(group.files, "file"), style.size(stats.size)]
    parts += [_count(stats.batches, "batch", "batches"), _count(stats.records, "record")]
    return ", ".join(parts)


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _block(columns: Sequence[Column], rows: Iterable[StatsRow], style: Style) -> str:
    from io import StringIO

    text = StringIO()
    table = Table(columns, text, raw=style.raw, how=style.how)
    for row in rows:
        table.write(row)
    table.close()
    return text.getvalue()


# --- small tables -------------------------------------------------------------------------------------

_SPREAD_COLUMNS = (
    Column("what", "SPREAD"),
    *(Column(key, key.upper(), Look.number) for key in ("min", "mean", "p50", "p90", "p99", "max")),
)
_CODEC_COLUMNS = (
    Column("codec", "CODEC"),
    Column("batches", "BATCHES", Look.number),
    Column("records", "RECORDS", Look.number),
    Column("size", "SIZE", Look.size),
    Column("bar", "SHARE"),
)
_RATIO_COLUMN = Column("ratio", "RATIO", Look.number)
_WHAT_IF_COLUMNS = (
    Column("codec", "WHAT IF"),
    Column("size", "SIZE", Look.size),
    Column("bar", "OF NOW"),
    Column("saved", "SAVED", Look.number),
    Column("rate", "COMPRESSES", Look.number),
    Column("sample", "SAMPLE", Look.number),
)


def _spreads(stats: Stats, style: Style) -> Iterator[StatsRow]:
    found = spread_row(stats.per_batch)
    if found is not None:
        yield {"what": "records a batch", **found, "mean": f"{found['mean']:.1f}"}
    sizes = [("bytes a batch", stats.batch_size)]
    if (deep := stats.deep) is not None:
        sizes += [("bytes a record", deep.record_size), ("bytes a key", deep.key_size)]
        sizes += [("bytes a value", deep.value_size)]
    for what, spread in sizes:
        found = spread_row(spread)
        if found is not None:
            yield {"what": what, **{key: style.size(value) for key, value in found.items()}}


def _codecs(stats: Stats) -> Iterator[StatsRow]:
    for label, row in codec_rows(stats).items():
        share = row["size"] / stats.size
        ratio = None if row["ratio"] is None else f"{row['ratio']:.2f}"
        yield {**row, "codec": label, "bar": f"{bar(share, 16)} {share_text(share):>4}", "ratio": ratio}


def _time_columns(stats: Stats) -> tuple[Column, ...]:
    level = stats.timeline.coarse(MOST_STRETCHES).level
    days = WIDTHS_MS[level] // 86_400_000
    title = _WIDTH_TITLES[level] if level < len(_WIDTH_TITLES) else f"{days} DAYS"
    return (
        Column("from", title),
        Column("batches", "BATCHES", Look.number),
        Column("records", "RECORDS", Look.number),
        Column("size", "SIZE", Look.size),
        Column("bar", "SHARE OF THE BYTES"),
    )


def _stretches(stats: Stats, style: Style) -> Iterator[StatsRow]:
    timeline = stats.timeline.coarse(MOST_STRETCHES)
    total = int(timeline.measures[:, 2].sum())
    for stretch, (batches, records, size) in zip(
        timeline.stretches.tolist(), timeline.measures.tolist(), strict=True
    ):
        start = stretch * timeline.width_ms
        written = style.time(start)
        if not style.raw and written.endswith(":00.000Z"):
            written = written.removesuffix(":00.000Z") + "Z"
        shown = f"{bar(size / total, 20)} {share_text(size / total):>4}"
        yield {"from": written, "batches": batches, "records": records, "size": size, "bar": shown}


def _key_columns(title: str, deep: Deep) -> tuple[Column, ...]:
    about = "" if deep.keys.is_exact else "ABOUT "
    keys = (Column("keys", "KEYS", Look.number),) if title != "KEY" and deep.keys.is_exact else ()
    return (
        Column("key", title),
        *keys,
        Column("records", f"{about}RECORDS", Look.number),
        Column("size", f"{about}SIZE", Look.size),
        Column("bar", "SHARE"),
    )


def _keys(deep: Deep, style: Style, most: int) -> Iterator[StatsRow]:
    for key in deep.keys.top(most):
        text = hidden(key) if style.redact else style.key(key.key, len(key.key) < key.size)
        yield {"key": text, "records": key.records, "size": key.bytes, "bar": _bar(key.records, deep)}


def _prefixes(deep: Deep, style: Style, most: int) -> Iterator[StatsRow]:
    for one in deep.keys.prefixes(most):
        row = {"keys": one.keys, "records": one.records, "size": one.bytes}
        yield {"key": style.key(one.prefix), **row, "bar": _bar(one.records, deep)}


def _bar(records: int, deep: Deep) -> str:
    share = min(1.0, records / deep.records)
    return f"{bar(share)} {share_text(share):>4}"


def _what_ifs(stats: Stats, results: list[WhatIf], style: Style) -> Iterator[StatsRow]:
    for result in results:
        if not result.stored:
            continue
        factor = result.size / result.stored
        rate = result.inflated / result.seconds if result.seconds else None
        is_free = result.choice.codec == 0
        yield {
            "codec": result.choice.label,
            "size": round(stats.size * factor),
            "bar": f"{bar(min(1.0, factor))} {share_text(factor):>4}",
            "saved": f"{'-' if factor > 1 else ''}{share_text(abs(1 - factor))}",
            "rate": None if rate is None or is_free else f"{style.size(rate)}/s",
            "sample": _count(result.batches, "batch", "batches"),
        }


# --- facts --------------------------------------------------------------------------------------------


def _facts(stats: Stats, style: Style) -> Iterator[str]:
    facts = [
        ("offsets", _offsets(stats)),
        ("times", _times(stats, style)),
        ("clock", _clocks(stats)),
        ("order", _order(stats)),
        ("rate", _rate(stats, style)),
        ("producers", _producers(stats)),
        ("magic", _magics(stats)),
        *(() if stats.deep is None else _deep(stats.deep)),
    ]
    for label, text in [*(facts if stats.batches else ()), ("damage", _damage(stats, style))]:
        if text:
            yield f"{label.ljust(_LABEL)}{text}\n"


def _offsets(stats: Stats) -> str:
    offsets = stats.offsets
    parts = [] if offsets.first is None else [f"{offsets.first} to {offsets.last}"]
    parts += [_count(offsets.gaps, "gap") if offsets.gaps else "no gap"]
    if offsets.missing:
        parts.append(f"{offsets.missing} missing")
    return ", ".join(parts)


def _times(stats: Stats, style: Style) -> str:
    times = times_of(stats)
    if times.least is None:
        return "none"
    return f"{style.time(times.least)} to {style.time(times.greatest)}"


def _clocks(stats: Stats) -> str:
    names = (TimestampType.NONE, TimestampType.CREATE, TimestampType.LOG_APPEND)
    return ", ".join(
        f"{kind.value} {share_text(count / stats.batches)}"
        for kind, count in zip(names, stats.types.tolist(), strict=True)
        if count
    )


def _order(stats: Stats) -> str:
    times = times_of(stats)
    what = ("batch", "batches") if stats.deep is None else ("record", "records")
    back = f" (up to {_duration(times.greatest_step_ms)})" if times.steps_back else ""
    parts = [
        f"{_count(times.future, *what) if times.future else 'none'} in the future",
        f"{times.steps_back or 'none'} out of order{back}",
    ]
    return ", ".join([*parts, *([f"{times.without} without time"] if times.without else [])])


def _duration(ms: int) -> str:
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if ms >= size:
            return f"{ms / size:.1f}{unit}"
    return f"{ms}ms"


def _rate(stats: Stats, style: Style) -> str:
    found = rates(stats)
    if found["records_per_second"] is None:
        return ""
    records = found["records_per_second"]
    digits = 1 if records >= 10 else 3
    return f"{records:.{digits}f} records/s, {style.size(found['bytes_per_second'])}/s"


def _producers(stats: Stats) -> str:
    if not stats.idempotent and not stats.control:
        return "no ids"
    about = "" if stats.producers.is_exact else "about "
    shares = [
        f"{name} {share_text(count / stats.batches)}"
        for name, count in (
            ("idempotent", stats.idempotent),
            ("transactional", stats.transactional),
            ("control", stats.control),
        )
    ]
    return f"{about}{stats.producers.count}; of the batches: {', '.join(shares)}"


def _magics(stats: Stats) -> str:
    found = {magic: batches for magic, (batches, *_rest) in enumerate(stats.magics.tolist()) if batches}
    if set(found) <= {2}:
        return ""
    return ", ".join(f"{magic}: {_count(count, 'batch', 'batches')}" for magic, count in found.items())


def _deep(deep: Deep) -> list[tuple[str, str]]:
    about = "" if deep.keys.is_exact else "about "
    keys = f"{about}{deep.keys.count} different, {deep.null_keys} null"
    headers = f"{deep.headers} on {_count(deep.with_headers, 'record')}" if deep.headers else "none"
    return [("keys", f"{keys}, {_count(deep.tombstones, 'tombstone')}"), ("headers", headers)]


def _damage(stats: Stats, style: Style) -> str:
    damages = stats.damages
    if not damages.classes:
        return ""
    classes = ", ".join(f"{name} {count}" for name, count in sorted(damages.classes.items()))
    return f"{_count(damages.places, 'place')}, {style.size(damages.size)} left out: {classes}"
