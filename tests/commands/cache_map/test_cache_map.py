"""`kafkatool cache-map` as people and scripts see it."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kafkatool.commands.rows.cache import ALL, COLD, DIRTY, MOST, SOME, strip
from kafkatool.engine.files.residency import Cell
from tests.cli import parse_rows, rows_of, run
from tests.engine.cold import evict_or_skip, resident_pages
from tests.terminals import is_readable
from tests.transcripts import prepare


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """The sample log directory, written out and in memory."""
    prepare(tmp_path)
    for path in (tmp_path / "sample").rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
    return tmp_path / "sample"


_rows = partial(rows_of, "cache-map")


def test_a_table_says_how_much_and_what_it_means(sample: Path) -> None:
    done = run("cache-map", str(sample))
    assert done.exit_code == 0
    lines = done.stdout.decode().splitlines()
    orders = next(line for line in lines if line.startswith("orders-0 "))
    assert orders.split()[:4] == ["orders-0", "1015B", "1015B", "100%"]
    assert orders.endswith(ALL * 16)
    assert "orders-0: the last 774B, 5 minutes, offsets 3 to 13 are in memory" in lines


def test_an_evicted_segment_is_cold_in_its_strip(sample: Path) -> None:
    log = sample / "orders-0" / "00000000000000000003.log"
    evict_or_skip(log)
    lines = run("cache-map", str(sample / "orders-0")).stdout.decode().splitlines()
    strips = {line.split()[1]: line.split()[-1] for line in lines if line.startswith("orders-0 ")}
    assert strips["3"] == COLD * 16
    assert strips["11"] == ALL * 16
    assert any("the last 226B, 60 seconds, offsets 11 to 13 are in memory" in line for line in lines)


def test_groups_are_told_where_they_would_read(sample: Path) -> None:
    evict_or_skip(sample / "orders-0" / "00000000000000000003.log")
    done = run("cache-map", "--groups", "--lag", "slow=4", str(sample / "orders-0"))
    text = done.stdout.decode()
    assert "group billing at offset 11: in memory (byte 0 of segment 11)" in text
    assert "group slow at offset 4: NOT in memory (byte 0 of segment 3); of 774B up to the end 548B" in text


def test_a_journal_of_ours_is_no_partition_that_vanished(sample: Path) -> None:
    (sample / "recover.kafkatool-1").write_text("{}")
    assert b"vanished" not in run("cache-map", str(sample)).stderr


def test_scripts_get_files_partitions_and_ranges(sample: Path) -> None:
    rows = _rows("--pages", str(sample / "orders-0"))
    log = next(
        row for row in rows if row["kind"] == "file" and row["file"].endswith("00000000000000000003.log")
    )
    assert (log["size"], log["pages"], log["resident_pages"]) == (548, 1, 1)
    assert log["resident_ranges"] == [[0, 548]]
    assert {row["kind"] for row in rows} == {"file", "cache_partition"}


@pytest.mark.parametrize(
    ("view", "kind"),
    [
        ("topics", "cache_topic"),
        ("partitions", "cache_partition"),
        ("segments", "cache_segment"),
        ("files", "file"),
    ],
)
def test_each_view_has_its_kind_of_row(sample: Path, view: str, kind: str) -> None:
    rows = _rows(f"--{view}", str(sample))
    assert {row["kind"] for row in rows} == {kind}
    if view != "segments":  # which some files belong to none of
        whole = _rows("--partitions", str(sample))
        assert sum(row["size"] for row in rows) == sum(row["size"] for row in whole)


def test_a_plan_changes_nothing_and_apply_does_it(sample: Path) -> None:
    log = sample / "orders-0" / "00000000000000000003.log"
    evict_or_skip(log)
    planned = run("cache-map", "--warm", str(sample / "orders-0"))
    assert b"nothing was changed; --apply carries it out" in planned.stderr
    assert not any(resident_pages(log))
    assert run("cache-map", "--warm", "--apply", str(sample / "orders-0")).exit_code == 0
    assert all(resident_pages(log))
    run("cache-map", "--evict", "--to", "11", "--apply", str(sample / "orders-0"))
    assert not any(resident_pages(log))
    assert all(resident_pages(sample / "orders-0" / "00000000000000000011.log"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--warm", "--evict"],
        ["--apply"],
        ["--last", "1G"],
        ["--warm", "--last", "1G", "--from", "3"],
        ["--lag", "nonsense"],
        ["--topics", "--files"],
        ["--watch", "--format", "svg"],
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_a_usage_error(sample: Path, arguments: list[str]) -> None:
    assert run("cache-map", *arguments, str(sample)).exit_code == 2


def test_the_files_of_a_process_can_be_asked_for(sample: Path) -> None:
    with (sample / "orders-0" / "00000000000000000003.log").open("rb"):
        rows = _rows("--pid", str(os.getpid()), "--files")
    assert any(row["file"].endswith("orders-0/00000000000000000003.log") for row in rows)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_a_stranger_is_told_that_he_is_not_told(sample: Path) -> None:
    for path in [sample, *sample.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    for parent in sample.parents:
        if parent.stat().st_mode & 0o005 != 0o005:
            parent.chmod(parent.stat().st_mode | 0o055)
    read_out, write_out = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        done = run("cache-map", "--format", "ndjson", "--files", str(sample / "orders-0"))
        os.write(write_out, json.dumps([done.exit_code, done.stdout.decode(), done.stderr.decode()]).encode())
        os._exit(0)
    os.close(write_out)
    with os.fdopen(read_out) as told:
        exit_code, stdout, stderr = json.loads(told.read())
    os.waitpid(child, 0)
    rows = parse_rows(stdout)
    filled = [row for row in rows if row["size"]]
    assert filled
    # Since Linux 6.14 or so cachestat refuses too; before, it told everybody the truth.
    if any(row["resident_pages"] is None for row in filled):
        assert exit_code == 3
        assert "neither owner of the file nor allowed to write it" in stderr
    index = next(row for row in filled if row["file"].endswith("00000000000000000011.index"))
    assert index["resident_pages"] in (None, 0), "every page resident: that is the lie"


# --- pictures -----------------------------------------------------------------------------------------


def test_the_svg_is_one_well_formed_picture(sample: Path) -> None:
    root = ElementTree.fromstring(run("cache-map", "--format", "svg", str(sample)).stdout)
    texts = ["".join(one.itertext()) for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "orders-0" in texts
    assert "the last 774B, 5 minutes, offsets 3 to 13 are in memory" in texts
    assert len(list(root.iter("{http://www.w3.org/2000/svg}rect"))) > 10


def test_the_html_needs_nothing_beside_it(sample: Path) -> None:
    page = run("cache-map", "--format", "html", str(sample)).stdout.decode()
    assert page.startswith("<!doctype html>")
    assert page.endswith("</html>\n")
    assert "<h2>orders-0</h2>" in page
    assert "://" not in page
    assert "src=" not in page


def test_a_strip_shows_each_part_by_what_of_it_is_there() -> None:
    cells = [Cell(10, 10, 0), Cell(10, 0, 0), Cell(10, 3, 0), Cell(10, 7, 0), Cell(10, 10, 2)]
    assert strip(cells, 5) == ALL + COLD + SOME + MOST + DIRTY
    assert strip(cells, 10) == "".join(one * 2 for one in ALL + COLD + SOME + MOST + DIRTY)
    assert strip([], 5) == ""
    assert strip([Cell(10, 10, 0), Cell(0, 0, 0), Cell(10, 0, 0)], 4) == ALL * 2 + COLD * 2


# --- terminals ----------------------------------------------------------------------------------------


def _in_terminal(columns: int, *arguments: str, environment: dict[str, str] | None = None) -> str:
    """What is written to a terminal so wide; stderr goes there too."""
    master, slave = pty.openpty()
    subprocess.run(["stty", "rows", "40", "cols", str(columns)], stdin=slave, check=True)
    command = [sys.executable, "-m", "kafkatool", "cache-map", *arguments]
    # Who runs the tests may have no terminal, and workers of pytest say how wide theirs is; this is another.
    others = ("COLUMNS", "LINES", "NO_COLOR")
    inherited = {name: value for name, value in os.environ.items() if name not in others}
    inherited |= {"TERM": "xterm", "LC_ALL": "C.UTF-8", **(environment or {})}
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=inherited)
    os.close(slave)
    written = b""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        if is_readable(master, 0.2):
            try:
                written += os.read(master, 65536)
            except OSError:  # the other side is closed
                break
        elif process.poll() is not None:
            break
    process.wait(timeout=60)
    os.close(master)
    return written.decode()


@pytest.mark.skipif(shutil.which("stty") is None, reason="there is no stty")
@pytest.mark.parametrize(("columns", "cells"), [(80, 16), (200, 128)])
def test_a_table_fits_the_terminal_and_is_the_same_without_colour(
    sample: Path, columns: int, cells: int
) -> None:
    plain = _in_terminal(columns, str(sample / "orders-0"), environment={"NO_COLOR": "1"})
    assert "\x1b" not in plain
    strips = re.findall(f"[{ALL}{MOST}{SOME}{COLD}{DIRTY}]+", plain)  # whatever the kernel has kept
    assert max(map(len, strips)) == cells, plain.splitlines()
    assert max(len(line) for line in plain.splitlines()) <= columns
    painted = _in_terminal(columns, str(sample / "orders-0"), environment={"NO_COLOR": ""})
    assert "\x1b[32m" in painted


@pytest.mark.skipif(shutil.which("stty") is None, reason="there is no stty")
def test_watching_redraws_in_place_and_shows_what_changed(sample: Path) -> None:
    watched = _in_terminal(100, "--watch", "--rounds", "2", "--interval", "0.1", str(sample / "orders-0"))
    assert watched.count("\x1b[H") == 2
    assert "CHANGE" in watched


def test_watching_for_scripts_numbers_the_rounds(sample: Path) -> None:
    rows = _rows("--watch", "--rounds", "2", "--interval", "0.1", "--partitions", str(sample / "orders-0"))
    assert [row["round"] for row in rows] == [0, 1]
