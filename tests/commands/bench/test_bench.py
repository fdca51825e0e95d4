"""`kafkatool bench`: real logs on a real disk, measured, proved and removed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kafkatool.engine.bench import place as bench_place
from kafkatool.engine.bench.compare import compare
from tests.cli import of_kind, parse_rows, rows_of, run
from tests.kafka.librdkafka import wait_until
from tests.log_dirs import locked

QUICK = ("--on-live-volume", "--no-limits", "--format", "ndjson")


def _metrics(output: bytes) -> dict[str, float]:
    return {row["name"]: row["value"] for row in parse_rows(output)}


def test_append_measures_and_leaves_nothing_behind(tmp_path: Path) -> None:
    target = tmp_path / "bench"
    done = run(
        "bench", "append", "--num-records", "50000", "--on-live-volume", "--format", "ndjson", str(target)
    )
    assert done.exit_code == 0
    metrics = _metrics(done.stdout)
    assert metrics["records in all"] == 50_000
    assert metrics["append p50"] <= metrics["append p99.99"] <= metrics["append max"]
    assert metrics["sequential write"] > 0
    assert metrics["random 4 KiB writes"] > 0
    assert not target.exists()
    assert b"the limit was" in done.stderr


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_append_wrote_passes_every_check_and_has_every_key(tmp_path: Path, codec: str) -> None:
    options = ["--num-records", "20000", "--codec", codec, "--compressible", "0.5", "--segment-size", "1M"]
    assert run("bench", "append", *QUICK, *options, "--keep", str(tmp_path)).exit_code == 0
    checked = run("verify", "--deep", str(tmp_path / "bench-0"))
    assert checked.exit_code == 0, checked.stdout
    counted = of_kind(rows_of("stats", "--deep", tmp_path / "bench-0"), "stats")
    (row,) = (row for row in counted if row["by"] == "total")
    assert row["records"] == 20_000
    assert row["keys"] == pytest.approx(20_000, rel=0.02)


@pytest.mark.parametrize(
    "options",
    [
        ["--pre-encoded", "--batches-per-append", "16"],
        ["--batches-per-append", "16", "--flush-messages", "5000"],
        ["--writers", "2", "--partitions", "4"],
        ["--preallocate", "--segment-size", "2M"],
        ["--num-keys", "100", "--key-distribution", "zipf"],
        ["--key-size", "0"],
    ],
    ids=" ".join,
)
def test_every_way_of_appending_leaves_a_good_log(tmp_path: Path, options: list[str]) -> None:
    done = run("bench", "append", *QUICK, "--num-records", "30000", *options, "--keep", str(tmp_path))
    assert done.exit_code == 0, done.stderr
    logs = [str(path) for path in sorted(tmp_path.glob("bench-*"))]
    assert run("verify", "--deep", *logs).exit_code == 0
    assert _metrics(done.stdout)["records in all"] >= 30_000


def test_payloads_can_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("one\ntwo\nthree\n")
    options = ["--payload-file", str(tmp_path / "lines"), "--num-records", "1000", "--keep"]
    assert run("bench", "append", *QUICK, *options, str(tmp_path / "b")).exit_code == 0
    values = set(run("cat", str(tmp_path / "b" / "bench-0")).stdout.split())
    assert values == {b"one", b"two", b"three"}


def test_a_pace_is_kept(tmp_path: Path) -> None:
    done = run(
        "bench", "append", *QUICK, "--num-records", "20000", "--throughput", "40000", str(tmp_path / "b")
    )
    assert _metrics(done.stdout)["records"] == pytest.approx(40_000, rel=0.25)


def test_ctrl_c_ends_with_what_was_measured_and_cleans_up(tmp_path: Path) -> None:
    target = tmp_path / "b"
    command = [sys.executable, "-m", "kafkatool", "bench", "append", *QUICK]
    command += [
        "--num-records",
        "500000",
        "--throughput",
        "20000",
        "--reporting-interval",
        "100",
        str(target),
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    # Several batches: the first of them has been counted then.
    several = 1 << 20
    wait_until(lambda: sum(path.stat().st_size for path in target.glob("bench-0/*.log")) > several, "batches")
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert 0 < _metrics(stdout)["records in all"] < 500_000
    assert b"stopped early: interrupted" in stderr
    assert not target.exists()


# --- refusals -----------------------------------------------------------------------------------------


def test_a_directory_with_other_data_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    done = run("bench", "append", *QUICK, str(tmp_path))
    assert done.exit_code == 5
    assert b"holds other data" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_a_volume_with_a_broker_on_it_is_refused(tmp_path: Path) -> None:
    log_dir = tmp_path / "logs"
    log_dir.mkdir()
    with locked(log_dir):
        done = run("bench", "append", "--no-limits", "--num-records", "10", str(tmp_path / "b"))
    assert done.exit_code == 5
    assert b"--on-live-volume" in done.stderr
    assert not (tmp_path / "b").exists()


def test_a_tenth_of_the_volume_stays_free(tmp_path: Path) -> None:
    done = run("bench", "append", *QUICK, "--num-records", str(10**15), str(tmp_path / "b"))
    assert done.exit_code == 5
    assert b"a tenth of the volume stays free" in done.stderr
    place = bench_place.BenchPlace(str(tmp_path), made=False)
    volume = os.statvfs(tmp_path)
    assert place.room() < volume.f_bavail * volume.f_frsize


def test_more_writers_than_logs_make_no_sense(tmp_path: Path) -> None:
    assert run("bench", "append", *QUICK, "--writers", "2", str(tmp_path / "b")).exit_code == 2


# --- read and look-up ---------------------------------------------------------------------------------


def test_read_sends_a_log_in_every_way_cold_and_warm(tmp_path: Path) -> None:
    done = run(
        "bench",
        "read",
        "--on-live-volume",
        "--size",
        "4M",
        "--rounds",
        "1",
        "--format",
        "ndjson",
        str(tmp_path / "b"),
    )
    metrics = _metrics(done.stdout)
    for way in ("sendfile", "pread", "mmap", "tls"):
        for state in ("cold", "warm"):
            assert metrics[f"{way}, {state}"] > 0
    assert metrics["tls, warm, CPU"] > metrics["sendfile, warm, CPU"]
    assert not (tmp_path / "b").exists()


def test_look_ups_are_counted_as_the_log_grows(tmp_path: Path) -> None:
    options = ["--days", "0.01", "--segment-size", "8M", "--lookups", "20", "--on-live-volume", "--keep"]
    done = run("bench", "lookup", *options, "--format", "ndjson", str(tmp_path / "b"))
    assert done.exit_code == 0, done.stderr
    metrics = _metrics(done.stdout)
    assert {name.split(", ")[2] for name in metrics} == {
        "1 segments",
        "10 segments",
        "100 segments",
        "103 segments",
    }
    assert all(value > 0 for value in metrics.values())


# --- compare ------------------------------------------------------------------------------------------


def _result(tmp_path: Path, name: str, samples: list[float], **settings: Any) -> str:
    metric = {
        "name": "records",
        "unit": "records/s",
        "value": sum(samples) / len(samples),
        "higher_is_better": True,
        "samples": samples,
    }
    path = tmp_path / name
    path.write_text(json.dumps({"machine": {}, "settings": settings, "metrics": [metric]}))
    return str(path)


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        ([101.0, 99.5, 100.2], "same"),
        ([140.0, 141.0, 139.0], "better"),
        ([60.0, 61.0, 59.0], "worse"),
        ([50.0, 200.0, 90.0], "same"),
    ],
)
def test_only_what_is_beyond_noise_has_changed(tmp_path: Path, after: list[float], verdict: str) -> None:
    one = _result(tmp_path, "a.json", [100.0, 101.0, 99.0])
    done = run("bench", "compare", "--format", "ndjson", one, _result(tmp_path, "b.json", after))
    (row,) = done.rows
    assert row["verdict"] == verdict


def test_other_settings_are_told_before_the_numbers(tmp_path: Path) -> None:
    one, two = (
        _result(tmp_path, f"{codec}.json", [1.0, 1.0, 1.0], codec=codec) for codec in ("none", "zstd")
    )
    done = run("bench", "compare", one, two)
    assert b"settings.codec differs: none before, zstd after" in done.stderr


def test_what_is_no_result_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"metrics": 5}')
    done = run("bench", "compare", str(tmp_path / "x.json"), str(tmp_path / "x.json"))
    assert done.exit_code == 3
    assert b"not written by" in done.stderr
    assert run("bench", "compare", str(tmp_path / "gone"), str(tmp_path / "gone")).exit_code == 3


def test_out_says_on_what_it_was_measured(tmp_path: Path) -> None:
    out = tmp_path / "a.json"
    run("bench", "append", *QUICK, "--num-records", "5000", "--out", str(out), str(tmp_path / "b"))
    found = json.loads(out.read_text())
    assert found["machine"]["file_system"]
    assert found["machine"]["mount_options"]
    assert found["settings"]["record_size"] == 100
    assert [change.verdict for change in compare(found, found)] == ["same"] * len(found["metrics"])
