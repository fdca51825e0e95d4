"""kafkatool pipeline: tables that are the same however they came to be, run after run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli import Run, run
from tests.spark.lakes import audit, tables
from tests.spark.matrix import NOW


def collect(part: Path, *roots: object) -> Run:
    return run("pipeline", "collect", "--jobs", "2", "--now", NOW, "-o", str(part), *map(str, roots))


def read_count(done: Run) -> int:
    """How many segments a run has read."""
    return int(done.stdout.decode().splitlines()[1].split()[3])


@pytest.fixture(scope="module")
def lake(spark: Any, fleet: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two brokers, of which one is damaged."""
    path = tmp_path_factory.mktemp("lake") / "lake"
    done = audit(path, f"a={fleet[0]}", f"b={fleet[1]}")
    assert done.exit_code == 4, done.stderr
    return path


def test_the_tables_hold_what_the_other_commands_say(lake: Path, damaged: Path) -> None:
    found = tables(lake)
    damaged_logs = [row for row in found["findings"] if row["root"] == "b" and row["severity"] != "note"]
    assert {"bit_flip", "bad_index"} <= {row["class"] for row in damaged_logs}
    sizes = {path: path.stat().st_size for path in damaged.glob("*/*.log")}
    assert sum(row["size"] for row in found["segments"] if row["root"] == "b") == sum(sizes.values())
    for row in found["segments"]:
        same = [
            one for one in found["batches"] if all(one[k] == row[k] for k in ("root", "topic", "segment"))
        ]
        same = [one for one in same if one["partition"] == row["partition"]]
        assert len(same) == row["batches"]
        assert sum(one["records_count"] for one in same) == row["records"]
    users = next(row for row in found["topics"] if (row["root"], row["topic"]) == ("a", "users"))
    assert users["compaction_removed_records"] > 0
    verdicts = run("retention", "--at", NOW, "--format", "ndjson", damaged).of("verdict")
    keys = ("topic", "partition", "segment")
    expected = {tuple(row[key] for key in keys): (row["verdict"], row["rule"]) for row in verdicts}
    for row in found["segments"]:
        if row["root"] == "b" and row["topic"] != "__cluster_metadata":
            judged = row["retention_verdict"], row["retention_rule"]
            assert judged == expected[tuple(row[key] for key in keys)]


def test_what_brokers_collect_gives_the_same_tables(
    spark: Any, lake: Path, fleet: list[Path], tmp_path: Path
) -> None:
    for label, directory in zip("ab", fleet, strict=True):
        assert collect(tmp_path / label, f"{label}={directory}").exit_code in (0, 4)
    done = audit(tmp_path / "lake", tmp_path / "a", tmp_path / "b")
    assert done.exit_code == 4, done.stderr
    assert tables(tmp_path / "lake") == tables(lake)


def test_a_second_run_reads_only_what_has_changed(spark: Any, damaged: Path, tmp_path: Path) -> None:
    data, lake = tmp_path / "data", tmp_path / "lake"
    shutil.copytree(damaged, data)
    first = audit(lake, f"x={data}")
    assert read_count(first) == sum(1 for _ in data.glob("*/*.log"))
    assert read_count(audit(lake, f"x={data}")) == 0
    grown = sorted((data / "users-1").glob("*.log"))[-1]
    with grown.open("ab") as file:
        file.write(b"torn")
    gone = sorted((data / "users-0").glob("*.log"))[0]
    for path in (data / "users-0").glob(f"{gone.stem}.*"):
        path.unlink()
    shutil.rmtree(data / "orders-gzip-0")
    done = audit(lake, f"x={data}")
    assert read_count(done) == 1
    fresh = tmp_path / "fresh"
    audit(fresh, f"x={data}")
    assert tables(lake) == tables(fresh)


def test_a_run_that_fails_changes_nothing(spark: Any, damaged: Path, tmp_path: Path) -> None:
    from kafkatool.engine.audit import lake as lakes

    lake = tmp_path / "lake"
    part = damaged / "payments-0"
    audit(lake, f"x={part}")
    before, names = tables(lake), sorted(os.listdir(lake))
    real = lakes.NewRun._point_at
    lakes.NewRun._point_at = lambda self, name: (_ for _ in ()).throw(KeyboardInterrupt)  # type: ignore
    try:
        assert audit(lake, f"x={part}", f"y={damaged / 'users-0'}").exit_code == 130
    finally:
        lakes.NewRun._point_at = real  # type: ignore[method-assign]
    assert tables(lake) == before
    (lake / f".run-000009-{'a' * 32}").mkdir()  # what a kill leaves
    audit(lake, f"x={part}")
    assert tables(lake) == before
    assert len(os.listdir(lake)) <= len(names) + 1


def test_a_report_compares_two_runs(spark: Any, lake: Path, good: Path, tmp_path: Path) -> None:
    older = tmp_path / "older"
    audit(older, f"a={good}", f"b={good}")
    done = run("pipeline", "report", str(lake), str(older))
    assert done.exit_code == 4
    assert b"bit_flip" in done.stderr
    assert b"damage" in done.stdout
    same = run("pipeline", "report", str(older), str(older))
    assert same.exit_code == 0
    assert b"0 findings are new, 0 are gone" in same.stderr


def test_what_is_no_lake_is_refused(spark: Any, good: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    assert audit(tmp_path, f"a={good}").exit_code == 5
    assert audit(good / "lake", f"a={good}").exit_code == 5
    assert run("pipeline", "report", str(tmp_path)).exit_code == 2
    assert audit(tmp_path / "lake", f"a={good}", f"a={good}").exit_code == 2


def test_two_runs_at_once_are_one_too_many(spark: Any, good: Path, tmp_path: Path) -> None:
    from kafkatool.engine.audit.lake import locked
    from kafkatool.engine.files.disk import Disk

    with locked(str(tmp_path / "lake"), Disk()):
        done = audit(tmp_path / "lake", f"a={good / 'payments-0'}")
    assert done.exit_code == 5
    assert b"another run" in done.stderr
