"""`kafkatool sql`: questions that Kafka itself cannot answer, in one line."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkatool.commands.line.options import BytesOpt, CommonOptions, RawOpt, epilog
from kafkatool.commands.line.spark_options import EMBEDDED, ConfOpt, MasterOpt, SparkOptions
from kafkatool.commands.screen.values import BytesFormat, Format
from kafkatool.commands.sql.options import LabelledPaths, SqlFormat
from kafkatool.errors import UsageError

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
    from kafkatool.commands.sql.telling import look_first, show, tell_met

    if (fmt is SqlFormat.parquet) != (output is not None):
        raise UsageError(
            "--format parquet writes to a directory: both --format parquet and -o DIR, or neither"
        )
    talk, guest, paths = common.talk(), common.guest(), where.written()
    look_first(query, paths, guest, talk)
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
        show(table, Format(str(fmt)), how, raw=raw)
    raise typer.Exit(tell_met(met, paths, talk))
