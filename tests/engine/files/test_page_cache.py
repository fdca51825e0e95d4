"""What the page cache holds: asked for real, of a real file on a real disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkatool.engine.files import page_cache
from kafkatool.engine.files.page_cache import PAGE, Residency
from tests.engine.cold import resident_pages


def test_a_fresh_file_is_resident_and_an_evicted_one_is_not(cold_file: Path) -> None:
    assert resident_pages(cold_file).count(0) == (4 << 20) // PAGE
    cold_file.read_bytes()
    assert resident_pages(cold_file).count(1) == (4 << 20) // PAGE


def test_absent_pages_are_reported_as_ranges(cold_file: Path) -> None:
    fd = os.open(cold_file, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    os.pread(fd, PAGE, 10 * PAGE)
    os.pread(fd, PAGE, 20 * PAGE)
    residency = Residency.of(fd, 4 << 20)
    assert residency is not None
    with residency:
        assert residency.absent(0, 30) == [(0, 10), (11, 20), (21, 30)]
        assert residency.absent(10, 11) == []
        assert residency.absent(2000, 2010) == []
    os.close(fd)


def test_asking_brings_nothing_in(cold_file: Path) -> None:
    for _ in range(3):
        assert not any(resident_pages(cold_file))


def test_an_empty_file_has_no_residency_to_ask_for(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()
    with path.open() as file:
        assert Residency.of(file.fileno(), 0) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_who_is_neither_owner_nor_writer_is_not_believed_to_see_everything_resident(cold_file: Path) -> None:
    fd = os.open(cold_file, os.O_RDONLY)
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        os._exit(0 if Residency.of(fd, 4 << 20) is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(fd)


def test_a_file_that_shrinks_under_the_mapping_is_only_less_resident(cold_file: Path) -> None:
    fd = os.open(cold_file, os.O_RDWR)
    residency = Residency.of(fd, 4 << 20)
    assert residency is not None
    with residency:
        os.ftruncate(fd, PAGE)
        assert residency.absent(1, 1024) == [(1, 1024)]
    os.close(fd)


def test_ranges_are_cut_and_kept() -> None:
    assert page_cache.without([(0, 10), (20, 30)], 5, 25) == [(0, 5), (25, 30)]
    assert page_cache.without([(0, 10)], 2, 4) == [(0, 2), (4, 10)]
    assert page_cache.without([(0, 10)], 20, 30) == [(0, 10)]
    assert page_cache.only_within([(0, 10), (20, 30)], 5, 25) == [(5, 10), (20, 25)]


def test_asking_for_idle_priority_never_fails() -> None:
    assert page_cache.idle_io_priority() in (True, False)
