"""Maps of the page cache, compared page for page with what vmtouch and fincore say of the same files."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from kafkatool.engine.files import page_cache, residency
from kafkatool.engine.files.page_cache import PAGE
from kafkatool.engine.files.residency import Cell, FileMap, map_path
from tests.engine.cold import evict, make_cold_file
from tests.kafka.peers import require_program

SIZE = (8 << 20) + 77


def _warm(path: Path) -> None:
    path.read_bytes()


def _leave_cold(path: Path) -> None:
    evict(path)


def _evict_middle(path: Path) -> None:
    path.read_bytes()
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 100 * PAGE, 700 * PAGE, os.POSIX_FADV_DONTNEED)


def _touch_some(path: Path) -> None:
    evict(path)
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        for page in (0, 3, 4, 5, 511, 512, 1023, SIZE // PAGE):
            os.pread(file.fileno(), 1, page * PAGE)


def _make_sparse(path: Path) -> None:
    evict(path)
    with path.open("r+b", buffering=0) as file:
        file.truncate(0)
        file.truncate(SIZE)
        file.seek(1 << 20)
        file.write(b"x" * 10_000)
        os.fsync(file.fileno())


def _dirty_the_end(path: Path) -> None:
    evict(path)
    with path.open("r+b") as file:
        file.seek(SIZE - 5 * PAGE)
        file.write(b"y" * (5 * PAGE))


CASES: dict[str, Callable[[Path], None]] = {
    "warm": _warm,
    "cold": _leave_cold,
    "partly evicted": _evict_middle,
    "touched here and there": _touch_some,
    "sparse": _make_sparse,
    "dirty": _dirty_the_end,
}
every_case = pytest.mark.parametrize("case", CASES)


@pytest.fixture
def file(tmp_path: Path, case: str) -> Path:
    path = make_cold_file(tmp_path, SIZE)
    CASES[case](path)
    return path


@every_case
def test_the_map_is_that_of_vmtouch(file: Path, case: str) -> None:
    vmtouch = require_program("vmtouch")
    told = subprocess.run([vmtouch, "-v", file], capture_output=True, text=True, check=True).stdout
    bar, resident, pages = re.findall(r"\[(.*)\] (\d+)/(\d+)", told)[-1]
    found = map_path(str(file))
    assert (found.resident, found.pages) == (int(resident), int(pages))
    assert _vmtouch_bar(found) == bar.rstrip()


def _vmtouch_bar(found: FileMap) -> str:
    """Its picture: a character for every so many pages, `O` where all of them are there, `o` for some."""
    each = 1 if found.pages <= 60 else found.pages // 60 + 1
    bounds = [*range(0, found.pages, each), found.pages]
    counts = [(found.resident_between(first, end), end - first) for first, end in pairwise(bounds)]
    return "".join(" " if not here else "O" if here == whole else "o" for here, whole in counts).rstrip()


@every_case
def test_the_map_is_that_of_fincore(file: Path, case: str) -> None:
    fincore = require_program("fincore")
    command = [fincore, "--bytes", "--noheadings", "--output", "PAGES,RES,SIZE", str(file)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    pages, resident, size = map(int, told.split())
    found = map_path(str(file))
    assert (found.resident, (found.resident or 0) * PAGE, found.size) == (pages, resident, size)


@every_case
def test_page_for_page_the_map_is_what_mincore_alone_says(
    file: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = map_path(str(file))
    monkeypatch.setattr(page_cache, "page_counter", lambda fd: lambda first, end: None)
    before_6_5 = map_path(str(file))
    assert before_6_5.counts is None
    assert (before_6_5.runs, before_6_5.resident) == (found.runs, found.resident)
    assert [cell.resident for cell in before_6_5.cells] == [cell.resident for cell in found.cells]


@every_case
def test_the_cells_add_up_to_the_map(file: Path, case: str) -> None:
    found = map_path(str(file))
    assert sum(cell.pages for cell in found.cells) == found.pages
    assert sum(cell.resident for cell in found.cells) == found.resident
    if found.counts is not None:
        assert sum(cell.dirty for cell in found.cells) == found.counts.dirty


@every_case
def test_looking_changes_neither_the_map_nor_the_time_of_access(file: Path, case: str) -> None:
    os.utime(file, ns=(1, file.stat().st_mtime_ns))
    first = map_path(str(file))
    assert map_path(str(file)).runs == first.runs
    assert file.stat().st_atime_ns == 1


@pytest.mark.parametrize("case", ["dirty"])
def test_dirty_pages_are_counted_and_in_their_place(file: Path, case: str) -> None:
    found = map_path(str(file))
    if found.counts is None:
        pytest.skip("before Linux 6.5 nobody tells")
    if not found.counts.dirty:
        pytest.skip("the kernel was faster than we")
    assert not any(cell.dirty for cell in found.cells[:100])
    assert found.cells[-1].dirty


@pytest.mark.parametrize("case", ["warm"])
@pytest.mark.parametrize("has_cachestat", [True, False])
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_who_neither_owns_nor_may_write_a_file_gets_no_map_at_all(
    file: Path, case: str, has_cachestat: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    evict(file)
    file.chmod(0o644)
    if not has_cachestat:
        monkeypatch.setattr(page_cache, "page_counter", lambda fd: lambda first, end: None)
    fd = os.open(file, os.O_RDONLY)
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        told = residency.map_file(fd, SIZE)
        # Nothing is resident: whatever is told must not say otherwise.
        os._exit(0 if told.resident in (None, 0) and (told.counts or told.resident is None) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(fd)


def test_an_empty_file_has_an_empty_map(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    found = map_path(str(tmp_path / "empty"))
    assert (found.pages, found.resident, list(found.resident_runs()), found.resident_size) == (0, 0, [], 0)


@pytest.mark.parametrize("case", ["touched here and there"])
def test_the_tail_begins_where_the_last_gap_ends(file: Path, case: str) -> None:
    found = map_path(str(file))
    assert found.tail_start(found.pages) == found.pages - 1
    assert found.tail_start(6) == 3
    assert found.tail_start(7) == 7
    assert found.resident_size == 7 * PAGE + 77


@pytest.mark.parametrize("case", ["warm"])
def test_a_file_that_shrinks_while_it_is_asked_is_no_error(file: Path, case: str) -> None:
    fd = os.open(file, os.O_RDWR)
    os.ftruncate(fd, PAGE)
    assert residency.map_file(fd, SIZE).resident == 1
    os.close(fd)


def test_a_sparse_file_of_terabytes_is_one_cell(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    assert map_path(str(path)).cells == (Cell(1 << 28, 0, 0),)
