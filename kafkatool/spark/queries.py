"""Queries in Spark's SQL over the views `records`, `batches` and `segments` of any logs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from threading import Event
from typing import Any, TypeVar

from kafkatool.engine.roots import absolute
from kafkatool.engine.source import Guest
from kafkatool.errors import KafkatoolError, UsageError
from kafkatool.spark.query_text import used_columns, views_of
from kafkatool.spark.schemas import ddl
from kafkatool.spark.source import NAME, guest_options, register_source

FUNCTIONS = {
    "utf8": "(b BINARY) RETURNS STRING RETURN try_validate_utf8(CAST(b AS STRING))",
    "json": "(b BINARY, field STRING) RETURNS STRING RETURN get_json_object(CAST(b AS STRING), "
    "CASE WHEN startswith(field, '$') THEN field ELSE concat('$.', field) END)",
}
"""utf8(bytes): text, null where it is none; json(bytes, 'a.b'): a field of a JSON value, as text."""
_Result = TypeVar("_Result")


def open_views(spark: Any, query: str, paths: Sequence[str], *, show_all: bool, guest: Guest) -> None:
    """Make the views that a query speaks of, and the functions. Raises UsageError for a bad query."""
    register_source(spark)
    for name, definition in FUNCTIONS.items():
        spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {name}{definition}")
    # First with all columns, so that Spark can say which there are where one is misspelt.
    for view in views_of(query):
        spark.createDataFrame([], ddl(view)).createOrReplaceTempView(str(view))
    _told(lambda: spark.sql(query))
    for view in views_of(query):
        reader = spark.read.format(NAME).schema(ddl(view, used_columns(query, view)))
        reader = reader.option("granularity", str(view)).option("all", str(show_all).lower())
        reader = reader.options(**guest_options(guest))
        reader.load([absolute(path) for path in paths]).createOrReplaceTempView(str(view))


def run_query(spark: Any, query: str) -> Any:
    """The result as Arrow, all of it. Raises UsageError for what Spark does not understand."""
    return _told(lambda: cancellable(spark, lambda: spark.sql(query).toArrow()))


def write_query(spark: Any, query: str, output: str) -> None:
    """The result as a directory of Parquet files, which must not be there yet."""
    _told(
        lambda: cancellable(
            spark, lambda: spark.sql(query).write.mode("error").parquet(os.path.abspath(output))
        )
    )


def rows_of(table: Any) -> Iterator[dict[str, Any]]:
    """The rows of a result, one by one."""
    for batch in table.to_batches(max_chunksize=1024):
        yield from batch.to_pylist()


def _told(run: Callable[[], _Result]) -> _Result:
    from pyspark.errors import AnalysisException, ParseException, PySparkException

    try:
        return run()
    except (AnalysisException, ParseException) as error:
        raise UsageError(_words(error)) from None
    except PySparkException as error:
        text = _words(error)
        if "maxResultSize" in text:
            text = "the result is too large for here: --format parquet -o DIR, or a LIMIT"
        raise KafkatoolError(text) from None
    except Exception as error:
        if type(error).__name__ == "Py4JJavaError":
            raise KafkatoolError(_words(error)) from None
        raise


def _words(error: Exception) -> str:
    """What Spark says, without the plan and the Java behind it."""
    text = str(error)
    if type(error).__name__ == "Py4JJavaError":
        text = text.partition("\n")[2].removeprefix(": ")  # behind the name of a Java object
    raised = re.findall(r"^(?:\w+\.)*(?:UsageError|KafkatoolError|Refused): (.+)$", text, re.MULTILINE)
    if raised:
        return str(raised[-1])
    return re.sub(r"\s*SQLSTATE: \w+.*", "", text.strip().splitlines()[0] if text.strip() else "no reason")


def cancellable(spark: Any, run: Callable[[], _Result]) -> _Result:
    """Run a job so that an interrupt ends it: pyspark's own way leaves it running."""
    from pyspark import InheritableThread

    context, group, done = spark.sparkContext, f"kafkatool-{id(run)}", Event()
    ended: list[tuple[bool, Any]] = []

    def work() -> None:
        try:
            context.setJobGroup(group, "kafkatool", interruptOnCancel=True)
            ended.append((True, run()))
        except BaseException as error:
            ended.append((False, error))
        finally:
            done.set()

    InheritableThread(target=work, daemon=True).start()
    try:
        while not done.wait(0.2):
            pass
    except KeyboardInterrupt:
        for _ in range(40):
            with suppress(Exception):
                context.cancelJobGroup(group)
            if done.wait(0.5):
                break
        raise
    is_good, value = ended[0]
    if not is_good:
        raise value
    result: _Result = value
    return result
