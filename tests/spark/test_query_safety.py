"""What `kafkatool sql` does not run: programs, other files, anything that changes something."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkatool.errors import Refused, UsageError
from kafkatool.spark import queries
from kafkatool.spark.query_safety import refuse_unsafe
from kafkatool.spark.schemas import Granularity, ddl
from tests.cli import run

JAVA = "reflect('java.lang.System', 'setProperty', 'kafkatool.attack', 'ran')"
STEPS = [
    "SELECT TRANSFORM(offset) USING 'touch {marker}' FROM records",
    "SELECT * FROM (SELECT TRANSFORM(offset) USING 'touch {marker}' FROM records)",
    "FROM records MAP offset USING 'touch {marker}' AS x",
    "INSERT OVERWRITE DIRECTORY '{marker}' USING parquet SELECT 1",
    "FROM records INSERT OVERWRITE DIRECTORY '{marker}' USING parquet SELECT offset",
    "FROM (SELECT r'\\' AS x) INSERT OVERWRITE DIRECTORY '{marker}' USING parquet SELECT x",
    "WITH a AS (SELECT 1) INSERT OVERWRITE DIRECTORY '{marker}' USING parquet SELECT * FROM a",
    "EXPLAIN INSERT OVERWRITE DIRECTORY '{marker}' USING parquet SELECT 1",
    "EXPLAIN SELECT TRANSFORM(offset) USING 'touch {marker}' FROM records",
    "CREATE TABLE t USING parquet LOCATION '{marker}' AS SELECT 1",
    "CREATE TEMPORARY VIEW v USING text OPTIONS (path '{secret}')",
    "CREATE TEMPORARY FUNCTION f AS 'x.Y' USING JAR '{secret}'",
    "CACHE TABLE t AS SELECT 1",
    "EXECUTE IMMEDIATE 'SELECT 1'",
    "BEGIN INSERT OVERWRITE DIRECTORY '{marker}' USING parquet SELECT 1; END",
    "DECLARE VARIABLE v INT DEFAULT 1",
    "SET VAR v = 1",
    "SET spark.sql.x = 1",
    "RESET",
    "ADD JAR '{secret}'",
    "ADD FILE '{secret}'",
    "LIST JARS",
    "USE default",
    "DROP VIEW records",
    "DELETE FROM records",
    "UPDATE records SET offset = 1",
    "MERGE INTO records USING batches ON true WHEN MATCHED THEN DELETE",
    "TRUNCATE TABLE records",
    "LOAD DATA INPATH '{secret}' INTO TABLE t",
    "REFRESH '{secret}'",
    "ANALYZE TABLE records COMPUTE STATISTICS",
    "SHOW TABLES IN global_temp",
    "DESCRIBE DATABASE default",
]
TABLES = [
    "SELECT * FROM text.`{secret}`",
    "SELECT * FROM binaryFile.`{secret}`",
    "SELECT (SELECT max(value) FROM csv.`{secret}`) FROM records",
    "SELECT * FROM records WHERE EXISTS (SELECT 1 FROM json.`{secret}`)",
    "WITH a AS (SELECT * FROM text.`{secret}`) SELECT * FROM a",
    "SELECT * FROM records a, LATERAL (SELECT * FROM text.`{secret}`)",
    "FROM records |> UNION ALL (SELECT * FROM text.`{secret}`)",
    "DESCRIBE QUERY SELECT * FROM text.`{secret}`",
    "DESCRIBE text.`{secret}`",
    "TABLE text.`{secret}`",
    "SELECT * FROM spark_catalog.default.records",
    "SELECT * FROM global_temp.records",
    "SELECT * FROM records WITH ('path' = '{secret}')",
    "SELECT * FROM STREAM(records)",
    "SELECT * FROM IDENTIFIER('text.`{secret}`')",
    "SELECT * FROM records VERSION AS OF 1",
]
FUNCTIONS = [
    f"SELECT {JAVA}",
    f"SELECT try_{JAVA}",
    f"SELECT java_method{JAVA.removeprefix('reflect')}",
    f"SELECT system.builtin.{JAVA}",
    f"SELECT IDENTIFIER('reflect'){JAVA.removeprefix('reflect')}",
    f"SELECT offset FROM records WHERE {JAVA} = ''",
    f"SELECT topic FROM records GROUP BY topic HAVING max({JAVA}) = ''",
    f"SELECT topic FROM records ORDER BY {JAVA}",
    f"SELECT topic FROM records LIMIT length({JAVA})",
    f"SELECT sum(offset) OVER (PARTITION BY {JAVA}) FROM records",
    f"SELECT transform(array(1), x -> {JAVA})",
    f"SELECT * FROM VALUES ({JAVA})",
    f"SELECT * FROM explode(array({JAVA}))",
    f"SELECT h FROM records LATERAL VIEW explode(array({JAVA})) t AS h",
    f"SELECT offset IN (SELECT length({JAVA})) FROM records",
    f"WITH a AS (SELECT {JAVA}) SELECT 1",
    f"FROM records |> EXTEND {JAVA} AS x",
    f"SELECT * FROM records a JOIN records b ON a.topic = {JAVA}",
    f"SELECT count(*) FILTER (WHERE {JAVA} = '') FROM records",
    f"EXPLAIN SELECT {JAVA}",
    f"DESCRIBE QUERY SELECT {JAVA}",
    "SELECT from_xml('<a><b>1</b></a>', 'b INT', map('rowValidationXSDPath', '{secret}'))",
    "SELECT xpath_string('<!DOCTYPE a SYSTEM \"file://{secret}\"><a>1</a>', 'a')",
    "SELECT from_protobuf(value, 'a', '{secret}') FROM records",
    "SELECT input_file_name() FROM records",
    "SELECT * FROM python_worker_logs()",
]


@pytest.fixture
def judge(spark: Any) -> Callable[[str], set[str]]:
    """`judge(query)` gives the views that it asks."""
    queries._make_functions(spark)
    names = [str(view) for view in Granularity]
    for view in Granularity:
        spark.createDataFrame([], ddl(view)).createOrReplaceTempView(str(view))
    return lambda query: refuse_unsafe(spark, query, names, queries.FUNCTIONS)


@pytest.mark.parametrize(
    ("attacks", "said"), [(STEPS, "step"), (TABLES, "table"), (FUNCTIONS, "function")], ids=["a", "b", "c"]
)
def test_what_is_no_question_to_our_views_is_refused_and_not_run(
    spark: Any, judge: Any, tmp_path: Path, attacks: list[str], said: str
) -> None:
    """Every one by itself: nothing is written, no file is opened, no method is called."""
    marker, secret = tmp_path / "marker", tmp_path / "secret"
    secret.write_text("secret")
    os.utime(secret, (0, 0))  # to be read would make it younger
    settings = len(spark.sql("SET").collect())
    for attack in attacks:
        query = attack.replace("{marker}", str(marker)).replace("{secret}", str(secret))
        with pytest.raises(Refused) as refused:
            judge(query)
        assert "--unsafe-sql" in str(refused.value)
        assert any(word in str(refused.value) for word in (said, "step", "expression", "options")), query
    assert sorted(tmp_path.iterdir()) == [secret]
    assert secret.stat().st_atime == 0
    assert spark._jvm.java.lang.System.getProperty("kafkatool.attack") is None
    assert len(spark.sql("SET").collect()) == settings


@pytest.mark.parametrize("attack", [STEPS[0], STEPS[5], TABLES[0], FUNCTIONS[0]], ids=range(4))
def test_the_command_refuses_and_names_the_way_around(
    spark: Any, good: Path, tmp_path: Path, attack: str
) -> None:
    marker, secret = tmp_path / "marker", tmp_path / "secret"
    secret.write_text("secret")
    query = attack.replace("{marker}", str(marker)).replace("{secret}", str(secret))
    done = run("sql", query, str(good / "payments-0"))
    assert (done.exit_code, done.stdout) == (5, b"")
    assert b"is refused, and nothing was run; --unsafe-sql" in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert not marker.exists()
    assert spark._jvm.java.lang.System.getProperty("kafkatool.attack") is None


def test_who_asks_for_it_may_run_anything(spark: Any, good: Path, tmp_path: Path) -> None:
    query = f"INSERT OVERWRITE DIRECTORY '{tmp_path / 'out'}' USING json SELECT max(offset) AS n FROM records"
    assert run("sql", "--unsafe-sql", query, str(good / "payments-0")).exit_code == 0
    [file] = (tmp_path / "out").glob("*.json")
    assert json.loads(file.read_text())["n"] > 0


ORDINARY = [
    "WITH a AS (SELECT * FROM records) SELECT count(*), (SELECT max(offset) FROM a) FROM a "
    "WHERE EXISTS (SELECT 1 FROM batches) AND offset IN (SELECT offset FROM A)",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r",
    "SELECT topic, row_number() OVER (PARTITION BY topic ORDER BY offset) AS n FROM records QUALIFY n = 1",
    "SELECT sum(offset) OVER w FROM records WINDOW w AS (ORDER BY offset ROWS BETWEEN 1 PRECEDING AND 1 "
    "FOLLOWING)",
    "SELECT topic, count(*) FROM records GROUP BY ROLLUP(topic, `partition`) HAVING count(*) > 1 ORDER BY 1 "
    "LIMIT 3 OFFSET 1",
    "SELECT topic, count(DISTINCT key), percentile_cont(0.5) WITHIN GROUP (ORDER BY offset), "
    "count(*) FILTER (WHERE offset > 1) FROM records GROUP BY ALL ORDER BY ALL",
    "SELECT r.topic FROM records r JOIN segments USING (topic) LEFT JOIN batches b ON r.offset = "
    "b.base_offset",
    "SELECT a.topic FROM records a, LATERAL (SELECT b.size FROM batches b WHERE b.topic = a.topic) t",
    "SELECT topic FROM records UNION ALL SELECT topic FROM batches INTERSECT SELECT topic FROM segments",
    "SELECT topic, utf8(h.key) FROM records LATERAL VIEW OUTER explode(headers) t AS h",
    "SELECT * FROM (SELECT topic, offset FROM records) PIVOT (count(offset) FOR topic IN ('a', 'b'))",
    "SELECT * FROM (SELECT offset, sequence FROM records) UNPIVOT (v FOR n IN (offset, sequence))",
    "SELECT transform(headers, h -> hex(h.value)), filter(array(1, 2), x -> x > 1), "
    "aggregate(array(1), 0, (a, b) -> a + b), exists(headers, h -> h.key IS NULL) FROM records",
    "SELECT json(value, 'a.b'), from_json(utf8(value), 'a INT').a, get_json_object(utf8(value), '$.x'), "
    "to_json(struct(topic, offset)), parse_json('{}'), variant_get(parse_json('1'), '$') FROM records",
    "SELECT window(timestamp, '1 hour').start, count(*) FROM records GROUP BY 1",
    "SELECT CASE WHEN offset > 1 THEN 'a' END, offset::STRING, offset BETWEEN 1 AND 2, topic RLIKE 'x', "
    "headers[0].key, date_trunc('HOUR', timestamp), extract(HOUR FROM timestamp), hex(md5(value)), "
    "timestamp - INTERVAL 1 DAY, try_cast(topic AS INT), 'drop table x; insert into y' FROM records",
    "SELECT /*+ BROADCAST(a) */ * EXCEPT (value) FROM records TABLESAMPLE (10 PERCENT) AS a",
    "FROM records |> WHERE offset > 1 |> EXTEND offset + 1 AS n |> AGGREGATE max(n) GROUP BY topic "
    "|> LIMIT 1",
    "SELECT * FROM VALUES (1, upper('x')) AS t(a, b), range(3), explode(array(1, 2))",
    "TABLE segments",
    "EXPLAIN FORMATTED SELECT * FROM records",
    "DESCRIBE records",
    "DESCRIBE QUERY SELECT topic FROM records",
    "SHOW COLUMNS IN batches",
    "SHOW TABLES",
]


def test_ordinary_questions_are_allowed(judge: Any) -> None:
    for query in ORDINARY:
        assert judge(query) == {str(view) for view in Granularity if view in query or query == "SHOW TABLES"}


def test_what_is_not_there_is_a_slip_and_no_attack(judge: Any) -> None:
    for query, said in (
        ("SELECT * FROM recrods", "no table recrods, only batches, records, segments"),
        ("SELECT cuont(*) FROM records", "no function cuont; did you mean count"),
        ("SELECT * FROM read_files('x')", "no function read_files"),
    ):
        with pytest.raises(UsageError, match=said):
            judge(query)


def test_ordinary_questions_are_answered(spark: Any, good: Path) -> None:
    every = json.loads(run("sql", "--format", "ndjson", ORDINARY[0], str(good / "payments-0")).stdout)
    assert every["count(1)"] > 0
    for query in (
        "FROM records |> WHERE offset < 2 |> DROP value",
        "SELECT r'\\' AS back, json(value, 'customer_id') AS c, count(*) AS n, "
        "max(size(transform(headers, h -> h.key))) AS m FROM records GROUP BY ALL ORDER BY n DESC LIMIT 3",
        "SHOW TABLES",
    ):
        done = run("sql", "--format", "ndjson", query, str(good / "payments-0"))
        assert done.exit_code == 0, done.stderr
        rows = done.rows
        assert rows, query
        if "|>" in query:
            assert {"topic", "key", "timestamp", "below_log_start"} <= set(rows[0])  # named by none
        if "tableName" in rows[0]:
            assert {row["tableName"] for row in rows} == {"records", "batches", "segments"}
