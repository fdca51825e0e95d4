"""The data source `kafkalog`: Kafka's logs as Spark tables, without Kafka.

    kafkatool.spark.register(spark)
    spark.read.format("kafkalog").option("granularity", "batches").load("/var/lib/kafka/data")

| option | |
|---|---|
| path, paths | log directories, partitions or files; globs; `label=PATH` names a root |
| granularity | `segments`, `batches` or `records` (default) |
| all | `true`: every record of the raw log; else what a consumer of committed records would get |
| splitBytes | bytes of a log per task, default 128 MiB |
| failOnDataLoss | `true` (default): a path or partition directory that is missing where it is to be read, or
a log that has changed since the read was planned, is an error; only a segment that a broker has deleted from
an existing directory is just noted in the log of its executor |
| onDamage | `fail` (default): damage in a log is an error; `skip`: it gives no rows; `rows`: it gives rows
whose column `error` describes it |
| cacheKeep | `true`: leave in the page cache what was read |
| maxRate | bytes per second that a task reads at most |
| maxErrors | stop a task after more than so many unreadable blocks of 4 KiB |
| maxRecordsPerTrigger | for streams: the most offsets in a micro-batch |

Spark does not tell a Python source which columns it needs: `.schema("offset BIGINT, key BINARY")` does, and
columns not named there are never decoded. Filters on root, topic, partition, offsets and times skip segments
and parts of them, if `spark.sql.python.filterPushdown.enabled` is true.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from kafkatool.engine.files.source import Guest
from kafkatool.engine.jobs.survey import SPLIT_SIZE
from kafkatool.errors import UsageError, unknown_word
from kafkatool.spark.losses import OnDamage, need_all
from kafkatool.spark.plan_files import read_plan, write_plan
from kafkatool.spark.planning import LogStretch, Wanted, find_subjects, packed, plan
from kafkatool.spark.rows import RowReader
from kafkatool.spark.schemas import TYPES, Granularity, ddl
from kafkatool.spark.tasks import Stretches

NAME = "kafkalog"
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register_source(spark: Any) -> None:
    """Make the source known to a session, with push-down if the session has it enabled."""
    is_on = spark.conf.get(_PUSHDOWN, "false") == "true"
    spark.dataSource.register(KafkaLogSource if is_on else _WithoutPushdown)


@dataclass(frozen=True, slots=True)
class Options:
    """What `.option(…)` asks for."""

    paths: tuple[str, ...]
    granularity: Granularity
    show_all: bool
    split_size: int
    most_per_trigger: int | None
    guest: Guest
    on_damage: OnDamage = OnDamage.FAIL
    fails_on_loss: bool = True
    note_plan: str | None = None
    """A directory on the driver's host where plans are written."""
    use_plan: str | None = None
    """Such a directory, to read instead of planning again."""

    @classmethod
    def of(cls, options: Any) -> Options:
        """Parse the options; raise UsageError for invalid ones."""
        paths = json.loads(options["paths"]) if "paths" in options else []
        if options.get("path"):
            paths.append(options["path"])
        if not paths:
            raise UsageError("kafkalog: no path: .load(PATH) or .option('path', PATH)")
        name = options.get("granularity", "records")
        if name not in [str(one) for one in Granularity]:
            raise UsageError(f"kafkalog: granularity {name!r}: segments, batches or records")
        return cls(
            tuple(paths),
            Granularity(name),
            _is_true(options, "all"),
            _number(options, "splitBytes") or SPLIT_SIZE,
            _number(options, "maxRecordsPerTrigger"),
            Guest(
                cache_keep=_is_true(options, "cacheKeep"),
                max_rate=_number(options, "maxRate"),
                max_errors=_number(options, "maxErrors", least=0),
            ),
            OnDamage(_word(options, "onDamage", [str(one) for one in OnDamage])),
            _word(options, "failOnDataLoss", ["true", "false"]) == "true",
            options.get("notePlan"),
            options.get("usePlan"),
        )


def _is_true(options: Any, name: str) -> bool:
    return str(options.get(name, "false")).lower() == "true"


def _word(options: Any, name: str, known: list[str]) -> str:
    """Return an option that is one of a few words, the first being the default."""
    word = str(options.get(name, known[0])).lower()
    if word not in known:
        raise unknown_word(f"kafkalog: {name}", word, known)
    return word


def guest_options(guest: Guest) -> dict[str, str]:
    """Return the options that make tasks read logs as this guest does."""
    found = {"cacheKeep": str(guest.cache_keep).lower()}
    numbers = {"maxRate": guest.max_rate, "maxErrors": guest.max_errors}
    return found | {name: str(number) for name, number in numbers.items() if number is not None}


def _number(options: Any, name: str, *, least: int = 1) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not str(text).isdigit() or int(text) < least:
        raise UsageError(f"kafkalog: {name} {text!r} is not a number of {least} or more")
    return int(text)


class _Source(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return ddl(Options.of(self.options).granularity)

    def _reading(self, schema: Any) -> tuple[Options, RowReader]:
        options = Options.of(self.options)
        known = TYPES[options.granularity]
        unknown = [name for name in schema.names if name not in known]
        if unknown:
            raise UsageError(
                f"kafkalog: {options.granularity} have no {', '.join(unknown)}; they have {', '.join(known)}"
            )
        rows = RowReader(
            options.granularity,
            schema.names,
            options.show_all,
            options.guest,
            options.on_damage,
            options.fails_on_loss,
        )
        return options, rows

    def streamReader(self, schema: Any) -> Any:  # noqa: N802
        from kafkatool.spark.stream import LogStreamReader

        options, rows = self._reading(schema)
        return LogStreamReader(options, rows)


class _WithoutPushdown(_Source):
    """For sessions in which a source that takes filters is an error."""

    def reader(self, schema: Any) -> Any:
        return LogReader(*self._reading(schema))


class KafkaLogSource(_Source):
    def reader(self, schema: Any) -> Any:
        return FilteringLogReader(*self._reading(schema))


class LogReader(DataSourceReader):
    def __init__(self, options: Options, rows: RowReader) -> None:
        self.options = options
        self.rows = rows
        self.wanted = Wanted()

    def partitions(self) -> list[Stretches]:
        options = self.options
        if options.use_plan is not None:
            planned = read_plan(options.use_plan)
            return [Stretches(pack) for pack in packed(planned, options.split_size)]
        found = find_subjects(options.paths, options.guest)
        need_all(found, options.fails_on_loss)
        # A segment is one row: if cut, it would be counted several times.
        size = 1 << 62 if options.granularity is Granularity.SEGMENTS else options.split_size
        packs = plan(found.subjects, self.wanted, options.guest, size)
        if options.granularity is Granularity.SEGMENTS:
            packs = [part for pack in packs for part in _spread(pack, options.split_size)]
        if options.note_plan is not None:
            write_plan(options.note_plan, options.granularity, packs)
        return [Stretches(pack) for pack in packs]

    def read(self, partition: Any) -> Iterator[Any]:
        if isinstance(partition, Stretches):
            yield from self.rows.read(partition.stretches)


def _spread(pack: list[LogStretch], size: int) -> Iterator[list[LogStretch]]:
    part: list[LogStretch] = []
    for stretch in pack:
        if part and sum(one.size for one in part) + stretch.size > size:
            yield part
            part = []
        part.append(stretch)
    if part:
        yield part


class FilteringLogReader(LogReader):
    """Leave out what filters rule out; Spark still evaluates every filter."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        for one in filters:
            if isinstance(one, IsNotNull) and one.attribute == ("error",):
                self.rows.only_damage = self.options.granularity is not Granularity.SEGMENTS
            take_filter(self.wanted, one, self.options.granularity)
            yield one


_FIRST = {
    Granularity.RECORDS: "offset",
    Granularity.BATCHES: "last_offset",
    Granularity.SEGMENTS: "last_offset",
}
_LAST = {Granularity.RECORDS: "offset", Granularity.BATCHES: "base_offset", Granularity.SEGMENTS: "segment"}
_TIME = {
    Granularity.RECORDS: ("timestamp_ms", "timestamp"),
    Granularity.BATCHES: ("max_timestamp_ms",),
    Granularity.SEGMENTS: ("max_timestamp_ms",),
}


def take_filter(wanted: Wanted, one: Filter, granularity: Granularity) -> None:
    """Narrow what is wanted by a filter, as far as names and indexes allow."""
    path: tuple[str, ...] = getattr(one, "attribute", ())
    name = path[0] if len(path) == 1 else None
    if name is None:
        return
    if isinstance(one, EqualTo | In):
        values = [one.value] if isinstance(one, EqualTo) else list(one.value)
        _take_values(wanted, name, values, granularity)
    elif isinstance(one, GreaterThan | GreaterThanOrEqual):
        _take_least(wanted, name, one.value, granularity)
    elif isinstance(one, LessThan | LessThanOrEqual) and name == _LAST[granularity]:
        wanted.last_offset = min(wanted.last_offset, int(one.value))


def _take_values(wanted: Wanted, name: str, values: list[Any], granularity: Granularity) -> None:
    values = [value for value in values if value is not None]
    if name == "topic":
        wanted.topics = _both(wanted.topics, values)
    elif name == "partition":
        wanted.partitions = _both(wanted.partitions, values)
    elif name == "root":
        wanted.roots = _both(wanted.roots, values)
    elif values:
        _take_least(wanted, name, min(values), granularity)
        if name == _LAST[granularity]:
            wanted.last_offset = min(wanted.last_offset, max(values))


def _both(known: set[Any] | None, values: list[Any]) -> set[Any]:
    return set(values) if known is None else known & set(values)


def _take_least(wanted: Wanted, name: str, value: Any, granularity: Granularity) -> None:
    if name == _FIRST[granularity]:
        wanted.first_offset = max(wanted.first_offset, int(value))
    elif name in _TIME[granularity]:
        in_ms = int(value.timestamp() * 1000) if hasattr(value, "timestamp") else int(value)
        wanted.first_ms = max(wanted.first_ms, in_ms)
