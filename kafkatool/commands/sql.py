"""`kafkatool sql`: questions that Kafka itself cannot answer, in one line."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkatool.commands.line.options import BytesOpt, CommonOptions, PathOptions, RawOpt, epilog
from kafkatool.commands.line.spark_options import EMBEDDED, ConfOpt, MasterOpt, SparkOptions
from kafkatool.commands.screen.table import Column, Look, rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import BytesFormat, Format, Row
from kafkatool.errors import ExitCode, KafkatoolError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkatool.spark.queries import Met

EPILOG = epilog(
    {
        "kafkatool sql \"SELECT * FROM records WHERE json(value, 'customer') = 42\" DIR": (
            "all messages of a customer"
        ),
        'kafkatool sql "SELECT topic, codec, sum(size) FROM batches GROUP BY 1, 2" DIR': (
            "bytes by topic and codec"
        ),
        'kafkatool sql --format parquet -o found "SELECT * FROM records" DIR': (
            "all records that a consumer would get, as Parquet files"
        ),
        'kafkatool sql --spark spark://h:7077 "SELECT count(*) FROM records" a=/a b=/b': (
            "on a cluster, over two brokers"
        ),
    },
)
_SETTINGS = {
    "spark.driver.maxResultSize": "256m",
    "spark.sql.shuffle.partitions": "8",
    # A query is taken literally: ${env:NAME} is not substituted.
    "spark.sql.variable.substitute": "false",
}


class SqlFormat(StrEnum):
    """The formats of the result."""

    table = "table"
    ndjson = "ndjson"
    csv = "csv"
    parquet = "parquet"


@dataclass(frozen=True, slots=True)
class LabelledPaths(PathOptions):
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH...",
            help="Log directories, partitions, files, server.properties or quoted globs; "
            "LABEL=PATH names a root.",
        ),
    ] = None


def sql(
    *,
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY",
            help="Spark SQL over the views records, batches and segments. utf8(bytes) and json(bytes, "
            "'a.b') decode keys and values.",
        ),
    ],
    where: LabelledPaths,
    show_all: Annotated[
        bool,
        typer.Option("--all", help="Every record of the log, not only what a read_committed consumer gets."),
    ] = False,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="DIR", help="Directory for --format parquet."),
    ] = None,
    unsafe_sql: Annotated[
        bool,
        typer.Option(
            "--unsafe-sql",
            help="Run anything Spark can run. A query may then start programs and read, write or delete any "
            "file that you may.",
        ),
    ] = False,
    spark: MasterOpt = EMBEDDED,
    conf: ConfOpt = None,
    fmt: Annotated[SqlFormat, typer.Option("--format", help="Output format.")] = SqlFormat.table,
    how: BytesOpt = BytesFormat.utf8,
    raw: RawOpt = False,
    common: CommonOptions,
) -> None:
    """Query log directories with SQL, on an embedded Spark or on a cluster.

    The view records has what `cat` shows: root, topic, partition, segment, offset, timestamp, key, value,
    headers and more. batches has every batch header, and a row with an error where there is damage. segments
    has one row per segment. Filters on topic, partition, offset and timestamp skip reading what they rule
    out, and columns that the query does not name are not decoded.

    Only queries to these views with functions that only compute are allowed. A query that would run a
    program, read another file or write is refused before any of it runs, unless --unsafe-sql is given. If a
    log is damaged, the answer covers the rest, stderr says how much damage there is, and the exit code is 4.
    """
    if (fmt is SqlFormat.parquet) != (output is not None):
        raise UsageError(
            "--format parquet writes to a directory: both --format parquet and -o DIR, or neither"
        )
    talk, guest, paths = common.talk(), common.guest(), where.written()
    _look_first(query, paths, guest, talk)
    running = SparkOptions(spark, [*(f"{key}={value}" for key, value in _SETTINGS.items()), *(conf or [])])
    with running.session(spark, talk) as session:
        from kafkatool.spark.queries import Question, judged_views, run_query, write_query
        from kafkatool.spark.query_text import views_of

        views = tuple(views_of(query)) if unsafe_sql else judged_views(session, query)
        question = Question(query, paths, show_all, guest, views)
        if output is not None:
            met = write_query(session, question, output)
            talk.note(f"{output}: written")
        else:
            table, met = run_query(session, question)
    if output is None:
        _show(table, Format(str(fmt)), how, raw=raw)
    raise typer.Exit(_tell_met(met, paths, talk))


def _tell_met(met: Met, paths: Sequence[str], talk: Talk) -> ExitCode:
    """Report how much of the logs is missing from the answer."""
    for path in met.vanished[:10]:
        talk.note(f"{path}: deleted since its directory was listed")
    if not met.damages:
        return ExitCode.OK
    from kafkatool.engine.advice.table import Advice, Placeholder
    from kafkatool.engine.directory.roots import split_label

    named: list[str] = [split_label(path)[1] for path in paths]
    verify = Advice.VERIFY(where=named if len(named) <= 3 else Placeholder("<PATHS>"))
    talk.warn(
        f"{met.damages} damaged {'place' if met.damages == 1 else 'places'} in {met.logs} "
        f"{'log' if met.logs == 1 else 'logs'} that the query reads, and the answer leaves them out; "
        f"the first: {met.first}; `{verify}` shows all"
    )
    return ExitCode.FOUND


def _look_first(query: str, paths: Sequence[str], guest: Any, talk: Talk) -> None:
    """Report what cannot be read, before Spark is started."""
    from kafkatool.format.names import METADATA_TOPIC
    from kafkatool.spark.planning import find_subjects

    found = find_subjects(paths, guest)
    if found.unread:
        raise KafkatoolError(
            f"{'; '.join(found.unread)}: the answer would be incomplete; name only what can be read"
        )
    for problem in found.problems:
        talk.warn(problem)
    if any(subject.partition.topic == METADATA_TOPIC for _root, subject in found.subjects) and (
        "records" in query.lower()
    ):
        talk.warn(f"{METADATA_TOPIC}: may show credentials and sensitive configs; cat --redact hides them")


def _show(table: Any, fmt: Format, how: BytesFormat, *, raw: bool) -> None:
    from kafkatool.spark.queries import rows_of

    columns = tuple(
        Column(field.name, field.name.upper(), Look.number if _is_number(field.type) else Look.text)
        for field in table.schema
    )
    with rows(fmt, columns, raw=raw, how=how) as out:
        for row in rows_of(table):
            shown: Row = {name: _plain(value) for name, value in row.items()}
            out.write({"kind": "row", **shown} if fmt is Format.ndjson else shown)


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _plain(value: Any) -> Any:
    """Convert a value to what JSON and columns take: times and exact numbers as text."""
    import datetime
    import decimal

    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, datetime.date | datetime.timedelta | decimal.Decimal):
        return str(value)
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return value
