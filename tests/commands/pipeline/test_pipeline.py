"""kafkatool pipeline collect and report: what is worth a look in a run, what is new, what is read again."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkatool.engine.audit.arrow_tables import read_table
from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.legacy import write_message
from tests.cli import parse_rows, run
from tests.engine.disk import START_MS, write_partition, write_segment
from tests.engine.partitions_to_verify import write_partition as write_sound_partition
from tests.mutations import flip

NOW_MS = START_MS + 3_600_000


def write_fleet(directory: Path) -> Path:
    """A topic for every remark."""
    for name in ("calm-0", "calm-1", "growing-0", "hurt-0", "leaving-0"):
        write_partition(directory, name)
    for number, segments in enumerate((12, 1, 1)):
        write_partition(directory, f"lopsided-{number}", segments=segments)
    late = write_partition(directory, "late-0")
    write_segment(late, 60, start_ms=NOW_MS + 1, is_active=True)
    one = [NewRecord(b"key", b"value", START_MS)]
    overwrite(directory, "single-0", [write_batch(one, base_offset=at) for at in range(9)])
    for magic in (0, 1):
        messages = [write_message(at, b"k", b"v", magic=magic, timestamp_ms=5) for at in range(7)]
        overwrite(directory, f"magic{magic}-0", messages)
    return directory


def overwrite(directory: Path, name: str, batches: list[bytes]) -> None:
    partition = write_partition(directory, name, segments=1)
    (partition / f"{0:020d}.log").write_bytes(b"".join(batches))
    for path in partition.glob("*index"):
        path.write_bytes(b"")


def collect(part: Path, *roots: object) -> dict[str, Any]:
    """A run; returns its summary."""
    words = ["--jobs", "1", "--format", "ndjson", "--now", str(NOW_MS), "-o", str(part), *map(str, roots)]
    done = run("pipeline", "collect", *words)
    assert done.exit_code in (0, 4), done.stderr
    return done.rows[-1]


def report(*lakes: Path) -> tuple[int, list[dict[str, Any]]]:
    done = run("pipeline", "report", "--format", "ndjson", *map(str, lakes))
    return done.exit_code, done.rows


def by_topic(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["topic"]: row for row in rows if row["kind"] == "topic_report"}


def test_a_report_tells_what_is_worth_a_look(tmp_path: Path) -> None:
    collect(tmp_path / "lake", f"a={write_fleet(tmp_path / 'data')}")
    _code, rows = report(tmp_path / "lake")
    topics = by_topic(rows)
    remarks = {topic: set(row["remarks"]) - {"damage"} for topic, row in topics.items()}
    assert remarks == {
        **{topic: set() for topic in ("calm", "growing", "hurt", "leaving")},
        "lopsided": {"skew"},
        "late": {"future timestamps"},
        "single": {"single-record batches"},
        "magic0": {"old format", "single-record batches"},
        "magic1": {"old format", "single-record batches"},
    }
    assert topics["lopsided"]["skew"] == pytest.approx(12 * 3 / 14, abs=0.01)
    assert topics["late"]["future_segments"] == 1
    assert topics["single"]["single_record_share"] == 1.0
    assert (topics["magic0"]["old_format_batches"], topics["magic1"]["old_format_batches"]) == (7, 7)
    assert topics["calm"]["growth"] is None


def test_a_report_of_two_runs_tells_growth_new_damage_and_what_is_gone(tmp_path: Path) -> None:
    data = write_fleet(tmp_path / "data")
    collect(tmp_path / "older", f"a={data}")
    grown = sum(path.stat().st_size for path in (data / "growing-0").glob("*.log"))
    write_segment(data / "growing-0", 120, is_active=True)
    grown = sum(path.stat().st_size for path in (data / "growing-0").glob("*.log")) - grown
    flip(data / "hurt-0" / f"{0:020d}.log", 500, 2)
    shutil.rmtree(data / "leaving-0")
    collect(tmp_path / "newer", f"a={data}")
    code, rows = report(tmp_path / "newer", tmp_path / "older")
    assert code == 4
    topics, summary = by_topic(rows), rows[-1]
    assert {topic: row["growth"] for topic, row in topics.items() if row["growth"]} == {"growing": grown}
    new = [row for row in rows if row["kind"] == "new_finding"]
    assert [(row["topic"], row["class"]) for row in new if row["severity"] == "loss"] == [
        ("hurt", "bit_flip")
    ]
    assert "damage" in topics["hurt"]["remarks"]
    assert summary["gone_topics"] == ["leaving"]
    back, rows = report(tmp_path / "older", tmp_path / "newer")
    assert (back, rows[-1]["new_findings"], rows[-1]["mended_findings"]) == (0, 0, len(new))


def test_a_segment_whose_last_bytes_changed_is_read_again_though_size_and_time_are_the_same(
    tmp_path: Path,
) -> None:
    partition = write_partition(tmp_path / "data", "orders-0")
    lake = tmp_path / "lake"
    assert collect(lake, f"a={partition.parent}")["segments_read"] == 2
    assert collect(lake, f"a={partition.parent}")["segments_read"] == 0
    log = partition / f"{0:020d}.log"
    before = log.stat()
    flip(log, -3)
    os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert collect(lake, f"a={partition.parent}")["segments_read"] == 1
    assert report(lake)[0] == 4


@pytest.mark.parametrize("verified", ["31 days ago", "2 days ago", "before anybody wrote it down"])
def test_rot_in_a_closed_segment_is_found_though_size_and_time_are_the_same(
    tmp_path: Path, verified: str
) -> None:
    log = write_sound_partition(tmp_path / "data" / "big-0") / f"{0:020d}.log"
    lake = tmp_path / "lake"
    assert collect(lake, f"a={log.parent.parent}")["segments_read"] == 3
    state = lake / "current" / "state.ndjson"
    units = parse_rows(state.read_text())
    for segment in (segment for unit in units for segment in unit["segments"]):
        at_ms = segment.pop("verified_at_ms")
        if verified[0].isdigit():
            segment["verified_at_ms"] = at_ms - int(verified.split()[0]) * 86_400_000
    state.write_text("".join(f"{json.dumps(unit)}\n" for unit in units))
    before = log.stat()
    flip(log, 100)
    os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))
    row = collect(lake, "--recheck-share", "0", "--recheck-older-than", "40d", f"a={log.parent.parent}")
    assert (row["segments_read"], report(lake)[0]) == (0, 0), "nobody asked for it"
    row = collect(lake, "--recheck-share", "100%", f"a={log.parent.parent}")
    assert row["segments_rechecked"] == row["segments_read"] == 3
    assert report(lake)[0] == 4


def test_every_segment_says_when_it_was_last_read(tmp_path: Path) -> None:
    partition = write_partition(tmp_path / "data", "orders-0")
    lake = tmp_path / "lake"
    collect(lake, f"a={partition.parent}")
    before = read_table(str(lake / "current"), "segments")["verified_at_ms"].to_pylist()
    collect(lake, f"a={partition.parent}")
    assert read_table(str(lake / "current"), "segments")["verified_at_ms"].to_pylist() == before
    collect(lake, "--recheck-older-than", "0s", f"a={partition.parent}")
    after = read_table(str(lake / "current"), "segments")["verified_at_ms"].to_pylist()
    assert all(new > old for new, old in zip(after, before, strict=True))


def test_a_glob_names_a_root_for_every_broker(tmp_path: Path) -> None:
    for name in ("broker-1", "broker-2"):
        write_partition(tmp_path / name, "orders-0")
    collect(tmp_path / "lake", tmp_path / "broker-*")
    _code, rows = report(tmp_path / "lake")
    assert (rows[-1]["roots"], by_topic(rows)["orders"]["partitions"]) == (2, 2)
