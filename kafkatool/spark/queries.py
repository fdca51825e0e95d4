"""Run queries in Spark SQL over the views `records`, `batches` and `segments` of any logs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any, TypeVar

from kafkatool.engine.directory.roots import absolute
from kafkatool.engine.files.object_storage import exists
from kafkatool.engine.files.source import Guest
from kafkatool.errors import KafkatoolError, Refused, UsageError
from kafkatool.spark.losses import DamageMet, DataLoss, OnDamage
from kafkatool.spark.plan_files import read_plan
from kafkatool.spark.query_safety import refuse_unsafe
from kafkatool.spark.query_text import columns_of, used_columns
from kafkatool.spark.schemas import Granularity, ddl
from kafkatool.spark.source import NAME, guest_options, register_source

FUNCTIONS = {
    "utf8": "(b BINARY) RETURNS STRING RETURN try_validate_utf8(CAST(b AS STRING))",
    "json": "(b BINARY, field STRING) RETURNS STRING RETURN get_json_object(CAST(b AS STRING), "
    "CASE WHEN startswith(field, '$') THEN field ELSE concat('$.', field) END)",
}
"""utf8(bytes): text, null if it is not UTF-8; json(bytes, 'a.b'): a field of a JSON value, as text."""
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Question:
    """A query, and the logs to run it on."""

    query: str
    paths: Sequence[str]
    show_all: bool
    guest: Guest
    views: tuple[Granularity, ...]

    def reader(self, spark: Any, view: Granularity) -> Any:
        """Return a reader of the logs at one granularity."""
        found = (
            spark.read.format(NAME).option("granularity", str(view)).option("all", str(self.show_all).lower())
        )
        return found.options(**guest_options(self.guest))

    @property
    def roots(self) -> list[str]:
        return [absolute(path) for path in self.paths]


@dataclass(frozen=True, slots=True)
class Met:
    """The damage in what a query read, and the logs that a broker deleted meanwhile."""

    damages: int = 0
    logs: int = 0
    first: str | None = None
    vanished: tuple[str, ...] = ()


def judged_views(spark: Any, query: str) -> tuple[Granularity, ...]:
    """Return the views that a query uses, without running anything.

    Raises UsageError for an invalid query, Refused for one that does more than query.
    """
    _make_functions(spark)
    names = [str(view) for view in Granularity]
    # Empty, with all columns: Spark can list them if one is misspelt.
    for view in Granularity:
        spark.createDataFrame([], ddl(view, columns_of(view))).createOrReplaceTempView(str(view))
    try:
        asked = _told(lambda: refuse_unsafe(spark, query, names, FUNCTIONS))
    finally:
        for name in names:
            spark.catalog.dropTempView(name)
    return tuple(view for view in Granularity if str(view) in asked)


def _make_functions(spark: Any) -> None:
    for name, definition in FUNCTIONS.items():
        spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {name}{definition}")


def run_query(spark: Any, question: Question) -> tuple[Any, Met]:
    """Return the whole result as Arrow, and the damage met."""
    return _answered(spark, question, lambda frame, _is_second: frame.toArrow())


def write_query(spark: Any, question: Question, output: str) -> Met:
    """Write the result as Parquet into a directory that does not exist yet; return the damage met."""

    def write(frame: Any, is_second: bool) -> None:
        # The second time the directory exists, and is empty: the first try created it, and failed.
        frame.write.mode("append" if is_second else "error").parquet(os.path.abspath(output))

    return _answered(spark, question, write)[1]


def _answered(spark: Any, question: Question, take: Callable[[Any, bool], _Result]) -> tuple[_Result, Met]:
    """Run as if there were no damage; if there is some, run again without it, and count it.

    Tasks cannot count for the driver, and a filter that counts would keep Spark from pushing down those of
    the query. So undamaged logs are read once, and only others twice.
    """
    register_source(spark)
    _make_functions(spark)

    def ask(on_damage: OnDamage, plan: str) -> _Result:
        _open_views(spark, question, on_damage, plan)
        is_second = on_damage is not OnDamage.FAIL
        return _told(lambda: cancellable(spark, lambda: take(spark.sql(question.query), is_second)))

    with TemporaryDirectory(prefix="kafkatool-plan-") as plan:
        try:
            return ask(OnDamage.FAIL, plan), Met(vanished=_vanished(plan))
        except DamageMet:
            pass
    with TemporaryDirectory(prefix="kafkatool-plan-") as plan:
        result = ask(OnDamage.ROWS, plan)
        return result, _told(lambda: cancellable(spark, lambda: _count_damage(spark, question, plan)))


def _open_views(spark: Any, question: Question, on_damage: OnDamage, plan: str) -> None:
    for view in question.views:
        columns = used_columns(question.query, view)
        # Damage rows have an error, and are not records of a consumer.
        hides = view is Granularity.RECORDS and on_damage is OnDamage.ROWS
        reader = question.reader(spark, view).schema(ddl(view, [*columns, "error"] if hides else columns))
        reader = reader.option("onDamage", str(on_damage)).option("notePlan", plan)
        frame = reader.load(question.roots)
        frame = frame.where("error IS NULL").drop("error") if hides else frame
        frame.createOrReplaceTempView(str(view))


def _vanished(plan: str) -> tuple[str, ...]:
    paths = dict.fromkeys(stretch.path for stretch in read_plan(plan))
    return tuple(path for path in paths if not exists(path))


_PLACE = ("root", "topic", "partition", "segment")


def _count_damage(spark: Any, question: Question, plan: str) -> Met:
    """Read what was planned once more, only for the damage."""
    found = None
    for view in question.views:
        # A segment's row only has the number of damages.
        of = Granularity.RECORDS if view is Granularity.RECORDS else Granularity.BATCHES
        at = "batch_position" if of is Granularity.RECORDS else "position"
        reader = question.reader(spark, of).schema(ddl(of, [*_PLACE, at, "error"]))
        reader = reader.option("onDamage", str(OnDamage.ROWS)).option(
            "usePlan", os.path.join(plan, str(view))
        )
        one = reader.load(question.roots).where("error IS NOT NULL").withColumnRenamed(at, "position")
        found = one if found is None else found.unionByName(one)
    if found is None:
        return Met()
    found = found.dropDuplicates([*_PLACE, "position"])
    place = ", ".join(f"`{name}`" for name in (*_PLACE, "position", "error"))
    [row] = found.selectExpr(
        "count(*) AS damages",
        "count(DISTINCT root, coalesce(topic, ''), coalesce(`partition`, -1), segment) AS logs",
        f"min(struct({place})) AS first",
    ).collect()
    first = row["first"]
    said = (
        None
        if first is None
        else (
            f"{first['topic']}-{first['partition']}, segment {first['segment']}, byte {first['position']}: "
            f"{first['error']}"
        )
    )
    return Met(row["damages"], row["logs"], said, _vanished(plan))


def rows_of(table: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a result, one by one."""
    for batch in table.to_batches(max_chunksize=1024):
        yield from batch.to_pylist()


def _told(run: Callable[[], _Result]) -> _Result:
    from pyspark.errors import PySparkException

    try:
        return run()
    except PySparkException as error:
        raise _ours(error) from None
    except Exception as error:
        if type(error).__name__ == "Py4JJavaError":
            raise _ours(error) from None
        raise


_OURS = {one.__name__: one for one in (UsageError, KafkatoolError, Refused, DataLoss, DamageMet)}


def _ours(error: Exception) -> KafkatoolError:
    """Return the error that we raised elsewhere, or Spark's message without the Java stack."""
    from pyspark.errors import AnalysisException, ParseException

    text = str(error)
    if type(error).__name__ == "Py4JJavaError":
        text = text.partition("\n")[2].removeprefix(": ")  # after the name of a Java object
    raised = re.findall(rf"^(?:\w+\.)*({'|'.join(_OURS)}): (.+)$", text, re.MULTILINE)
    if raised:
        name, said = raised[-1]
        return _OURS[name](said)
    if "maxResultSize" in text:
        return KafkatoolError("the result is too large for here: --format parquet -o DIR, or a LIMIT")
    line = text.strip().splitlines()[0] if text.strip() else "no reason"
    words = re.sub(r"\s*SQLSTATE: \w+.*", "", line)
    return (UsageError if isinstance(error, AnalysisException | ParseException) else KafkatoolError)(words)


def cancellable(spark: Any, run: Callable[[], _Result]) -> _Result:
    """Run a job so that an interrupt ends it: pyspark itself leaves it running."""
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
