"""`kafkatool stats` as people and scripts meet it."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafkatool.commands.rows.stats import bar, share_text
from kafkatool.format.batch import Codec, NewRecord
from kafkatool.format.batch_writing import write_batch
from tests.cli import rows_of, run
from tests.logs import TIME, batches, write_log
from tests.places import FIXTURES, ROOT


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two topics, one of them compressed and in two partitions."""
    directory = tmp_path_factory.mktemp("logs")
    write_log(directory / "plain-0", b"".join(batches(20)))
    for number in range(2):
        write_log(directory / f"packed-{number}", b"".join(batches(20, per_batch=40, codec=Codec.ZSTD)))
    return directory


rows = partial(rows_of, "stats", codes=[0, 4])


def stats(*arguments: str | Path) -> list[dict[str, Any]]:
    return [row for row in rows(*arguments) if row["kind"] == "stats"]


@pytest.mark.parametrize(
    ("by", "named"),
    [
        ("topic", ["packed", "plain"]),
        ("partition", ["packed-0", "packed-1", "plain-0"]),
        ("file", ["packed-0", "packed-1", "plain-0"]),
    ],
)
def test_rows_are_about_what_was_asked_and_a_total(log_dir: Path, by: str, named: list[str]) -> None:
    found = stats("--by", by, log_dir)
    assert [row["by"] for row in found] == [by] * len(named) + ["total"]
    assert [row["directory"] or row["topic"] for row in found[:-1]] == named
    assert found[-1]["records"] == sum(row["records"] for row in found[:-1]) == 1660
    assert (found[-1]["partitions"], found[-1]["files"]) == (3, 3)


@pytest.mark.parametrize("fmt", ["table", "ndjson", "csv"])
def test_any_number_of_jobs_writes_the_same(log_dir: Path, fmt: str) -> None:
    command = ("stats", "--deep", "--format", fmt, "--now", str(TIME), str(log_dir))
    outputs = {run(*command, "--jobs", jobs).stdout for jobs in ("1", "2", "3")}
    assert len(outputs) == 1


# --- a range ------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("fmt", ["table", "ndjson", "csv"])
@pytest.mark.parametrize("by", ["file", "partition", "topic"])
@pytest.mark.parametrize("deep", [[], ["--deep"]])
def test_any_number_of_jobs_writes_the_same_of_a_range(
    log_dir: Path, fmt: str, by: str, deep: list[str]
) -> None:
    words = ["stats", *deep, "--format", fmt, "--by", by, "--now", str(TIME), str(log_dir)]
    for bounds in (("--from", "31", "--to", "55"), ("--from", f"@{TIME + 100_500}"), ("--to", "1")):
        told = [run(*words, *bounds, "--jobs", jobs) for jobs in ("1", "2", "3")]
        assert told[0] == told[1] == told[2] != run(*words)
        assert told[0].exit_code == 0


def test_bounds_are_offsets_or_times_the_first_inclusive_and_the_last_exclusive(log_dir: Path) -> None:
    def counts(*words: str) -> list[int]:
        return [row["records"] for row in stats("--deep", *words, log_dir / "plain-0")]

    assert counts("--from", "10", "--to", "12") == [2, 2]
    assert counts("--from", f"@{TIME + 10_000}", "--to", f"@{TIME + 12_000}") == [2, 2]
    assert counts("--from", "2023-11-14T22:13:30Z", "--to", "2023-11-14T22:13:32Z") == [2, 2]
    assert counts("--to", "now-2h") == counts() == [60, 60]


def test_what_has_nothing_in_the_range_is_left_out(log_dir: Path) -> None:
    found = stats("--from", "100", log_dir)
    assert [row["directory"] for row in found] == ["packed-0", "packed-1", None]
    assert (found[-1]["partitions"], found[-1]["files"]) == (2, 2)
    done = run("stats", "--from", "100", str(log_dir))
    assert b"plain" not in done.stdout


@pytest.mark.parametrize("bounds", [("--from", "now-2h"), ("--to", "0"), ("--from", "9", "--to", "9")])
def test_nothing_in_the_range_at_all_is_2(log_dir: Path, bounds: tuple[str, ...]) -> None:
    for path in (log_dir, log_dir / "plain-0"):
        done = run("stats", *bounds, str(path))
        assert (done.exit_code, done.stderr) == (2, b"kafkatool: nothing matches\n")
        assert done.stdout == b"total: 0 partitions, 0 files, 0B, 0 batches, 0 records\n"
        [total] = rows_of("stats", *bounds, path)
        assert (total["by"], total["batches"]) == ("total", 0)


def test_a_bound_that_is_none_is_refused(log_dir: Path) -> None:
    done = run("stats", "--from", "yesterday", str(log_dir))
    assert (done.exit_code, done.stdout) == (2, b"")
    assert b"is not a position" in done.stderr


def test_damage_outside_of_the_range_is_not_told(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", b"".join(batches(5))[:-3])
    assert run("stats", "--to", "12", str(tmp_path / "t-0")).exit_code == 0
    assert run("stats", "--to", "13", str(tmp_path / "t-0")).exit_code == 4


def test_what_if_takes_its_sample_from_the_range(tmp_path: Path) -> None:
    log = text_log(tmp_path / "t-0", 50)
    [row, *_total] = [
        row for row in rows("--from", "150", "--to", "450", "--what-if", "zstd", log) if "saved_share" in row
    ]
    assert row["batches"] == 4


def test_every_fixture_directory_can_be_told_in_every_format() -> None:
    for directory in sorted({path.parent for path in FIXTURES.rglob("*.log")})[::9]:
        for fmt in ("table", "ndjson", "csv"):
            done = run("stats", "--deep", "-v", "--format", fmt, "--jobs", "1", str(directory))
            assert done.exit_code in (0, 4), done.stderr


def test_the_future_is_what_lies_after_now(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", b"".join(batches(10)))
    [row, _total] = stats("--now", str(TIME + 14_000), "--deep", tmp_path / "t-0")
    assert (row["future_batches"], row["future_records"]) == (5, 15)
    [row, _total] = stats("--now", "2001-01-01T00:00:00Z", tmp_path / "t-0")
    assert row["future_batches"] == 10


def test_damage_is_said_and_decides_the_exit_code(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", b"".join(batches(5))[:-3])
    done = run("stats", str(tmp_path / "t-0"))
    assert done.exit_code == 4
    assert b"t-0: damage, left out: torn_tail 1" in done.stderr
    assert b"damage      1 place" in done.stdout
    write_log(tmp_path / "t-0", b"".join(batches(5)) + bytes(5000))
    assert run("stats", str(tmp_path / "t-0")).exit_code == 0, "the active segment may be preallocated"


def test_what_is_no_log_is_refused_and_what_is_named_oddly_is_not(tmp_path: Path) -> None:
    index = tmp_path / "00000000000000000000.index"
    index.write_bytes(bytes(80))
    done = run("stats", str(index))
    assert (done.exit_code, done.stdout) == (2, b"")
    assert b"is not a log" in done.stderr
    saved = write_log(tmp_path, b"".join(batches(4)), "carved.bin")
    assert stats(saved)[0]["batches"] == 4


def test_a_file_that_is_no_log_is_refused_beside_others_too(tmp_path: Path) -> None:
    good = write_log(tmp_path / "t-0", b"".join(batches(4)))
    (tmp_path / "t-0" / "00000000000000000000.index").write_bytes(b"")
    done = run("stats", str(good), str(tmp_path / "t-0" / "00000000000000000000.index"))
    assert (done.exit_code, done.stdout) == (2, b"")
    assert b"00000000000000000000.index: is not a log" in done.stderr


def test_an_interrupted_run_tells_the_total_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkatool.engine.stats.walk import StatsJob

    for number in range(3):
        write_log(tmp_path / f"t-{number}", b"".join(batches(4)))
    walk = StatsJob.map

    def interrupted(job: StatsJob, split: Any, before: Any) -> Any:
        if Path(split.path).parent.name == "t-2":
            raise KeyboardInterrupt
        return walk(job, split, before)

    monkeypatch.setattr(StatsJob, "map", interrupted)
    for fmt in ("table", "ndjson", "csv"):
        done = run("stats", "--format", fmt, "--jobs", "1", *(str(tmp_path / f"t-{n}") for n in range(3)))
        assert done.exit_code == 130
        assert b"interrupted" in done.stderr
        assert b"t-0" in done.stdout
        assert b"total" in done.stdout
    assert stats_total_of(done.stdout) == 8


def stats_total_of(csv: bytes) -> int:
    heading, *lines = csv.decode().splitlines()
    return int(lines[-1].split(",")[heading.split(",").index("batches")])


# --- what if ------------------------------------------------------------------------------------------


def text_log(directory: Path, count: int = 300) -> Path:
    rows = [NewRecord(b"k%d" % n, b'{"page":"/start","number":%d}' % n, TIME) for n in range(100)]
    data = b"".join(write_batch(rows, base_offset=100 * n) for n in range(count))
    return write_log(directory, data)


def test_what_if_tells_what_the_same_batches_would_take(tmp_path: Path) -> None:
    log = text_log(tmp_path / "t-0")
    found = [row for row in rows("--what-if", "zstd,gzip:9,none", log) if row["kind"] == "stats_what_if"]
    one, total = found[:3], found[3:]
    assert [(row["codec"], row["level"]) for row in one] == [("zstd", None), ("gzip", 9), ("none", None)]
    assert [row["by"] for row in found] == ["partition"] * 3 + ["total"] * 3
    assert [row["size"] for row in one] == [row["size"] for row in total]
    for row in one:
        assert row["batches"] == 128
        assert row["saved_share"] == pytest.approx(1 - row["size"] / row["stored_size"], abs=1e-6)
        assert row["projected_size"] == pytest.approx(
            log.stat().st_size * (1 - row["saved_share"]), rel=0.001
        )
    assert one[2]["saved_share"] == 0
    assert one[0]["saved_share"] > 0.5


def test_the_sample_is_the_same_every_time(tmp_path: Path) -> None:
    log = text_log(tmp_path / "t-0", 50)
    sizes = [
        [row["size"] for row in rows("--what-if", "zstd,lz4", "--jobs", jobs, log) if "saved_share" in row]
        for jobs in ("1", "2")
    ]
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("choice", ["brotli", "zstd:99", "snappy:1", "gzip:x", ""])
def test_unknown_codecs_and_levels_are_refused(tmp_path: Path, choice: str) -> None:
    log = text_log(tmp_path / "t-0", 1)
    assert run("stats", "--what-if", choice, str(log)).exit_code == 2


# --- text ---------------------------------------------------------------------------------------------


def test_sheets_of_all_fixtures_fit_into_80_columns() -> None:
    for kind in ("legacy", "compacted", "transactions", "odd", "log"):
        directories = {str(path.parent) for path in (FIXTURES / kind).rglob("*.log")}
        done = run("stats", "--deep", "-v", "--what-if", "zstd", *sorted(directories))
        wide = [line for line in done.stdout.decode().splitlines() if len(line) > 80]
        assert wide == []


def test_a_sheet_fits_into_80_columns(log_dir: Path) -> None:
    done = run("stats", "--deep", "-v", "--what-if", "zstd,none", str(log_dir))
    lines = done.stdout.decode().splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.partition(":")[0] for line in lines if re.match(r"[a-z]+(-\d)?: ", line)] == [
        "packed-0",
        "packed-1",
        "plain-0",
        "total",
    ]


def test_an_empty_log_is_one_line(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", b"")
    done = run("stats", "--deep", "--what-if", "zstd", str(tmp_path / "t-0"))
    assert done.stdout == b"t-0: 1 file, 0B, 0 batches, 0 records\n"


def test_keys_are_hidden_if_asked(log_dir: Path) -> None:
    for fmt in ("table", "ndjson"):
        done = run("stats", "--deep", "--redact", "--format", fmt, str(log_dir / "plain-0"))
        assert b"k0" not in done.stdout
        assert b"#" in done.stdout


def test_keys_that_are_no_text_are_escaped(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", write_batch([NewRecord(b"\x1b[2J\xff\n", b"", TIME)]))
    done = run("stats", "--deep", str(tmp_path / "t-0"))
    assert b"\x1b" not in done.stdout
    assert rb"\x1b[2J\xff\n" in done.stdout
    [row] = [
        row for row in rows("--deep", "--bytes", "hex", "--by", "file", tmp_path / "t-0") if row.get("rank")
    ][:1]
    assert row["key"] == "1b5b324aff0a"


def test_bars_are_as_long_as_their_share() -> None:
    assert bar(0) == " " * 10
    assert bar(1) == "█" * 10
    assert bar(0.5) == "█████     "
    assert bar(1e-9).strip() == "▏"
    assert [share_text(share) for share in (0, 0.001, 0.0994, 0.5, 1)] == [
        "0%",
        "0.1%",
        "9.9%",
        "50%",
        "100%",
    ]


def test_csv_has_no_objects_for_spreads(log_dir: Path) -> None:
    done = run("stats", "--format", "csv", str(log_dir))
    heading, *lines = done.stdout.decode().splitlines()
    assert "records_per_batch_p99" in heading.split(",")
    assert len(lines) == 4


@pytest.mark.parametrize("pure", ["0", "1"])
def test_both_kernels_write_the_same(log_dir: Path, pure: str) -> None:
    command = [sys.executable, "-m", "kafkatool", "stats", "--deep", "--format", "ndjson", "--now", "0"]
    done = subprocess.run(
        [*command, str(log_dir)],
        env={"KAFKATOOL_PURE": pure, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
    )
    assert done.stdout == run(*command[3:], str(log_dir)).stdout
