"""`kafkatool ls`, from the command line to its lines."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kafkatool.cli import app
from tests.cli import of_kind, parse_rows, rows_of
from tests.engine.disk import (
    CLUSTER_ID,
    START_MS,
    TOPIC_ID,
    write_mixed_log_dir,
    write_partition,
    write_segment,
)

STRAY = "lost-3.0123456789abcdef0123456789abcdef-stray"
DELETED = "gone-0.0123456789abcdef0123456789abcdef-delete"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["ls", *map(str, arguments)])


rows = partial(rows_of, "ls", codes=[0])


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return write_mixed_log_dir(tmp_path / "data")


def test_partitions_come_in_order_with_their_facts(log_dir: Path) -> None:
    found = rows(log_dir)
    assert [row["kind"] for row in found] == ["logdir", *["partition"] * 5, "total"]
    partitions = of_kind(found, "partition")
    assert [(row["topic"], row["partition"], row["state"]) for row in partitions] == [
        ("gone", 0, "deleted"),
        ("lost", 3, "stray"),
        ("orders", 0, "active"),
        ("orders", 2, "active"),
        ("orders", 10, "active"),
    ]
    orders = partitions[2]
    assert (orders["first_offset"], orders["last_offset"], orders["segments"]) == (0, 119, 2)
    assert orders["first_timestamp_ms"] == START_MS
    assert orders["max_timestamp_ms"] == START_MS + 59_001
    assert (orders["high_watermark"], orders["log_start_offset"]) == (120, None)
    assert (orders["topic_id"], orders["problem"]) == (TOPIC_ID, None)
    assert orders["size"] > 1 << 20 > orders["allocated"]


def test_the_log_directory_says_whose_it_is(log_dir: Path) -> None:
    (log_dir / "lost+found").mkdir()
    (log_dir / "what").touch()
    (found,) = of_kind(rows(log_dir), "logdir")
    assert (found["cluster_id"], found["node_id"], found["directory_id"]) == (CLUSTER_ID, 7, TOPIC_ID)
    assert found["clean_shutdown"] is True
    assert found["unknown_files"] == [str(log_dir / "what")]
    assert found["unknown_directories"] == [str(log_dir / "lost+found")]


def test_the_table_holds_the_same_and_the_heading_goes_to_stderr(log_dir: Path) -> None:
    (log_dir / "lost+found").mkdir()
    result = run(log_dir)
    lines = result.stdout.splitlines()
    assert lines[0].split()[:3] == ["TOPIC", "PARTITION", "STATE"]
    assert lines[3].split()[:6] == ["orders", "0", "active", "2", "0", "119"]
    assert lines[-1].split()[0] == "total"
    assert len(lines) == 7
    assert f"cluster {CLUSTER_ID}, node 7" in result.stderr
    assert "lost+found: unknown directory; a broker does not start with it here" in result.stderr
    assert run("-q", log_dir).stderr == ""


def test_topics_are_summed_over_log_directories(log_dir: Path, tmp_path: Path) -> None:
    other = write_mixed_log_dir(tmp_path / "other")
    topics = {row["topic"]: row for row in of_kind(rows("--topics", log_dir, other), "topic")}
    assert list(topics) == ["gone", "lost", "orders"]
    assert topics["orders"]["partitions"] == 6
    assert topics["orders"]["states"] == "active:6"
    assert topics["orders"]["segments"] == 12
    assert topics["orders"]["max_timestamp_ms"] == START_MS + 59_001


def test_segments_show_what_cleaning_left_behind(log_dir: Path) -> None:
    write_segment(log_dir / "orders-0", 0, suffix=".cleaned")
    found = of_kind(rows("--segments", log_dir / "orders-0"), "segment")
    assert [(row["segment"], row["state"], row["last_offset"]) for row in found] == [
        (0, "cleaned", 59),
        (0, "closed", 59),
        (60, "active", 119),
    ]
    (partition,) = of_kind(rows(log_dir / "orders-0"), "partition")
    assert partition["leftover_allocated"] == found[0]["allocated"]


def test_files_are_all_there(log_dir: Path) -> None:
    found = of_kind(rows("--files", log_dir), "file_entry")
    on_disk = {str(path) for path in log_dir.rglob("*") if path.is_file()}
    assert {row["file"] for row in found} == on_disk
    index = next(row for row in found if row["file"].endswith("orders-0/00000000000000000060.index"))
    assert (index["file_kind"], index["group"], index["offset"], index["size"]) == (
        "index",
        "index",
        60,
        1 << 20,
    )
    assert (index["topic"], index["partition"]) == ("orders", 0)


def test_files_named_one_by_one_are_shown_as_segments(log_dir: Path) -> None:
    found = rows(log_dir / "orders-0/00000000000000000060.log", log_dir / f"{STRAY}/00000000000000000000.log")
    assert [(row["topic"], row["segment"], row["last_offset"]) for row in of_kind(found, "segment")] == [
        ("orders", 60, 119),
        ("lost", 0, 59),
    ]


def test_the_total_counts_everything_once(log_dir: Path) -> None:
    os.link(log_dir / "orders-0/00000000000000000000.log", log_dir / "orders-0/copy")
    (total,) = of_kind(rows(log_dir), "total")
    files = {path.stat().st_ino: path.stat() for path in log_dir.rglob("*") if path.is_file()}
    assert total["files"] == len(files)
    assert total["size"] == sum(found.st_size for found in files.values())
    assert total["allocated"] == sum(found.st_blocks * 512 for found in files.values())


def test_states_are_chosen_and_a_choice_of_nothing_is_said(log_dir: Path) -> None:
    assert [row["directory"] for row in of_kind(rows("--state", "stray", log_dir), "partition")] == [STRAY]
    both = of_kind(rows("--state", "stray", "--state", "deleted", log_dir), "partition")
    assert [row["directory"] for row in both] == [DELETED, STRAY]
    nothing = run("--state", "future", log_dir)
    assert (nothing.exit_code, nothing.stdout) == (2, "")
    assert nothing.stderr == "kafkatool: no partition is future\n"
    assert run("--state", "lost", log_dir).exit_code == 2


def test_rows_are_sorted_and_limited(log_dir: Path) -> None:
    write_segment(log_dir / "orders-2", 120, batches=300, start_ms=START_MS + 10**9)

    def names(*arguments: str) -> list[str]:
        return [row["directory"] for row in of_kind(rows(*arguments, log_dir), "partition")]

    assert names("--sort", "size", "--limit", "1") == ["orders-2"]
    assert names("--sort", "time", "--limit", "1") == ["orders-2"]
    assert names("--sort", "allocated", "--reverse")[-1] == "orders-2"
    assert names("--reverse")[0] == "orders-10"
    segments = of_kind(rows("--segments", "--sort", "offset", log_dir), "segment")
    assert [row["segment"] for row in segments] == sorted(row["segment"] for row in segments)


def test_csv_has_one_kind_and_a_heading(log_dir: Path) -> None:
    lines = run("--format", "csv", log_dir).stdout.splitlines()
    assert len(lines) == 6
    assert lines[0].startswith("topic,partition,state,segments,first_offset")


def test_raw_numbers_are_exact(log_dir: Path) -> None:
    (row,) = of_kind(rows(log_dir / "orders-0"), "partition")
    assert run("--raw", log_dir / "orders-0").stdout.splitlines()[1].split()[-3:-1] == [
        str(row["size"]),
        str(row["allocated"]),
    ]


def test_the_space_is_accounted_for(log_dir: Path) -> None:
    (space,) = of_kind(rows("--space", log_dir), "space")
    parts = ("log", "index", "state", "leftover", "unknown", "open_deleted", "unexplained")
    assert space["used"] == sum(space[part] for part in parts)
    assert space["log_dirs"] == [str(log_dir)]
    table = run("--space", log_dir).stdout
    assert [word in table for word in ("log data", "indexes", "deleted but still open", "unexplained")] == [
        True
    ] * 4
    assert run("--space", log_dir / "orders-0").exit_code == 2


def test_what_cannot_be_read_is_said_and_the_rest_is_shown(log_dir: Path) -> None:
    (log_dir / "meta.properties").write_text("version=99\n")
    result = run("--format", "ndjson", log_dir)
    assert result.exit_code == 3
    assert "meta.properties" in result.stderr
    assert f"{log_dir}: meta.properties cannot be read; " in run(log_dir).stderr
    assert len(result.stdout.splitlines()) == 7


def test_damage_is_a_note_and_no_failure(log_dir: Path) -> None:
    log = log_dir / "orders-0/00000000000000000060.log"
    log.write_bytes(log.read_bytes()[:-100])
    (row,) = of_kind(rows(log_dir / "orders-0"), "partition")
    assert row["last_offset"] == 117
    assert row["problem"].startswith("torn_tail at byte ")


def test_a_name_with_escapes_in_it_cannot_paint_the_terminal(tmp_path: Path) -> None:
    log_dir = write_mixed_log_dir(tmp_path / "data")
    (log_dir / "red\x1b[31m").touch()
    result = run(log_dir)
    assert "\x1b" not in result.stderr + result.stdout


def test_a_name_that_is_no_utf8_is_still_listed(tmp_path: Path) -> None:
    directory = write_partition(tmp_path, "orders-0")
    os.rename(directory / "leader-epoch-checkpoint", os.fsencode(directory) + b"/caf\xe9")
    result = run("--files", "--format", "ndjson", directory)
    assert result.exit_code == 0
    assert '\\udce9"' in result.stdout
    assert parse_rows(result.stdout)


def test_views_exclude_each_other(log_dir: Path) -> None:
    result = run("--topics", "--files", log_dir)
    assert result.exit_code == 2
    assert result.stderr == "kafkatool: --topics and --files exclude each other\n"


def test_listing_changes_nothing(log_dir: Path) -> None:
    def facts() -> dict[str, tuple[int, int, int]]:
        return {
            str(path): (path.stat().st_mtime_ns, path.stat().st_size, path.stat().st_atime_ns)
            for path in sorted(log_dir.rglob("*"))
            if path.is_file()
        }

    before = facts()
    for view in ("--topics", "--partitions", "--segments", "--files", "--space"):
        assert run(view, log_dir).exit_code == 0
    assert facts() == before
