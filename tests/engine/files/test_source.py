"""Reading as a good guest: neutral to the cache, patient with bad disks, calm about changing files."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.engine.files import page_cache
from kafkatool.engine.files import source as source_module
from kafkatool.engine.files.page_cache import PAGE, Residency
from kafkatool.engine.files.source import (
    BLOCK,
    FileSource,
    Guest,
    Pace,
    PipeSource,
    open_source,
    read_small_file,
)
from kafkatool.errors import KafkatoolError
from tests.engine.cold import resident_pages

SIZE = 4 << 20


def bring_in(path: Path, *ranges: tuple[int, int]) -> None:
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    for first, end in ranges:
        os.pread(fd, (end - first) * PAGE, first * PAGE)
    os.close(fd)


def read_all(path: Path, guest: Guest, step: int = 300_000) -> bytes:
    pieces = []
    position = 0
    with open_source(path, guest) as source:
        while piece := source.read(position, step):
            pieces.append(piece)
            position += len(piece)
    return b"".join(pieces)


class BadDisk:
    """A pread that fails for every request touching a bad block, as a disk does."""

    def __init__(self, *bad: int, code: int = errno.EIO) -> None:
        self.bad = bad
        self.code = code
        self.smallest = 1 << 40

    def __call__(self, fd: int, size: int, position: int) -> bytes:
        self.smallest = min(self.smallest, size)
        for block in self.bad:
            if position < (block + 1) * BLOCK and position + size > block * BLOCK:
                raise OSError(self.code, os.strerror(self.code))
        return os.pread(fd, size, position)


def open_on(path: Path, disk: source_module.Pread, guest: Guest | None = None) -> FileSource:
    return FileSource(os.open(path, os.O_RDONLY), str(path), guest or Guest(cache_keep=True), disk)


def test_a_cold_file_is_cold_again_after_it_was_read(cold_file: Path) -> None:
    data = read_all(cold_file, Guest())
    assert not any(resident_pages(cold_file))
    assert data == cold_file.read_bytes()


def test_what_was_resident_stays_and_nothing_else_comes_in(cold_file: Path) -> None:
    bring_in(cold_file, (3, 7), (100, 400), (1023, 1024))
    before = resident_pages(cold_file)
    assert before.count(1) == 305
    read_all(cold_file, Guest())
    assert resident_pages(cold_file) == before


@pytest.mark.parametrize("position", [0, 5000, 1 << 20])
def test_one_small_read_leaves_no_trace(cold_file: Path, position: int) -> None:
    with open_source(cold_file, Guest()) as source:
        source.read(position, 61)
    assert not any(resident_pages(cold_file))


def test_reading_the_same_window_twice_fetches_it_once_and_leaves_no_trace(cold_file: Path) -> None:
    with open_source(cold_file, Guest()) as source:
        source.read(0, 100_000)
        assert resident_pages(cold_file)[:24] == bytes([1]) * 24
        source.read(50_000, 100_000)
        source.read(50_000, 100_000)
    assert not any(resident_pages(cold_file))


def test_keeping_the_cache_keeps_what_was_read(cold_file: Path) -> None:
    read_all(cold_file, Guest(cache_keep=True))
    assert resident_pages(cold_file).count(1) == SIZE // PAGE


def test_where_residency_cannot_be_asked_nothing_is_dropped(
    cold_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring_in(cold_file, (0, 1024))
    monkeypatch.setattr(Residency, "of", lambda fd, size: None)
    asked: list[int] = []

    def pread(fd: int, size: int, position: int) -> bytes:
        asked.append(size)
        return os.pread(fd, size, position)

    with open_on(cold_file, pread, Guest()) as source:
        assert len(source.read(0, SIZE)) == SIZE
    monkeypatch.undo()
    assert max(asked) <= source_module.BLIND_WINDOW
    assert resident_pages(cold_file).count(1) == 1024


def test_neither_times_nor_size_change(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 5000)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    read_all(path, Guest())
    after = path.stat()
    assert (after.st_atime, after.st_mtime, after.st_size) == (1_000_000_000, 1_000_000_000, 5000)


@given(
    st.binary(max_size=3 * PAGE),
    st.integers(0, 4 * PAGE),
    st.integers(0, 4 * PAGE),
    st.sampled_from([1, 7, 4096]),
)
def test_a_read_is_a_slice(data: bytes, position: int, size: int, blocks: int) -> None:
    fd = os.memfd_create("data")
    os.write(fd, data)
    guest = Guest(max_rate=None)
    with FileSource(fd, "data", guest) as source:
        source._window = blocks
        assert source.read(position, size) == data[position : position + size]


def test_a_file_that_grows_ends_where_it_ended_at_opening(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with open_source(path) as source:
        assert not source.grew()
        with path.open("ab") as file:
            file.write(b"new")
        assert source.read(0, 100) == b"old"
        assert source.grew()
        assert source.changed is None


def test_a_file_that_shrinks_gives_less_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10_000)
    with open_source(path) as source:
        os.truncate(path, 4000)
        assert source.read(0, 10_000) == b"x" * 4000
        assert source.read(6000, 100) == b""
        assert source.changed == "shrank below 4000 bytes while it was read"


def test_a_file_deleted_meanwhile_can_be_read_to_its_end_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10)
    with open_source(path) as source:
        path.unlink()
        assert source.read(0, 10) == b"x" * 10
        assert source.look_again() == "was deleted while it was read"


def test_a_bad_block_is_zeros_and_everything_around_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    data = os.urandom(64 * BLOCK)
    path.write_bytes(data)
    disk = BadDisk(5, 6, 40)
    with open_on(path, disk) as source:
        expected = bytearray(data)
        expected[5 * BLOCK : 7 * BLOCK] = bytes(2 * BLOCK)
        expected[40 * BLOCK : 41 * BLOCK] = bytes(BLOCK)
        assert source.read(0, 64 * BLOCK) == expected
        assert source.unreadable == [(5 * BLOCK, 7 * BLOCK), (40 * BLOCK, 41 * BLOCK)]
    assert disk.smallest == BLOCK


def test_a_bad_block_read_off_its_border_is_still_one_bad_block(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * (8 * BLOCK))
    guest = Guest(cache_keep=True)
    with open_on(path, BadDisk(2), guest) as source:
        for position in (0, 100, BLOCK, 2 * BLOCK + 17, 3 * BLOCK):
            data = source.read(position, 8 * BLOCK)
            assert data == (b"x" * 2 * BLOCK + bytes(BLOCK) + b"x" * 5 * BLOCK)[position:]
        assert source.unreadable == [(2 * BLOCK, 3 * BLOCK)]
    assert guest.errors.count == 1


def test_an_input_output_error_of_the_kernel_itself_is_read_around(tmp_path: Path) -> None:
    """A hole in our own address space, read through /proc/self/mem: a short answer, then a real EIO."""
    libc = page_cache._libc()
    pages, hole = 32, 5
    private_anonymous, read_write = 0x22, 3
    start = libc.mmap(None, pages * PAGE, read_write, private_anonymous, -1, 0)
    libc.munmap(start + hole * PAGE, PAGE)
    path = tmp_path / "file"
    path.write_bytes(b"x" * (pages * PAGE))
    memory = os.open("/proc/self/mem", os.O_RDWR)
    os.pwrite(memory, b"x" * (hole * PAGE), start)
    os.pwrite(memory, b"x" * ((pages - hole - 1) * PAGE), start + (hole + 1) * PAGE)
    with open_on(path, lambda _fd, size, position: os.pread(memory, size, start + position)) as source:
        data = source.read(0, pages * PAGE)
        assert source.unreadable == [(hole * PAGE, (hole + 1) * PAGE)]
    assert data == b"x" * (hole * PAGE) + bytes(PAGE) + b"x" * ((pages - hole - 1) * PAGE)
    os.close(memory)
    libc.munmap(start, hole * PAGE)
    libc.munmap(start + (hole + 1) * PAGE, (pages - hole - 1) * PAGE)


def test_more_bad_blocks_than_allowed_stop_the_walk(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * (64 * BLOCK))
    guest = Guest(cache_keep=True, max_errors=2)
    with open_on(path, BadDisk(1, 2, 3), guest) as source:
        assert len(source.read(0, 3 * BLOCK)) == 3 * BLOCK
        with pytest.raises(KafkatoolError, match="more than 2 bad blocks"):
            source.read(3 * BLOCK, BLOCK)


def test_an_error_that_is_not_the_disks_is_told(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    with (
        open_on(path, BadDisk(0, code=errno.EACCES)) as source,
        pytest.raises(KafkatoolError, match="Permission denied"),
    ):
        source.read(0, 100)


def test_the_pace_is_kept_over_all_files(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(time, "sleep", sleep)
    pace = Pace(1000)
    for _ in range(10):
        pace.spend(500)
    assert sum(slept) == pytest.approx(5.0)
    now += 100
    pace.spend(1000)
    assert slept[-1] == pytest.approx(1.0)  # no burst after a rest


def test_a_slow_pace_is_an_even_one() -> None:
    assert Guest(max_rate=1 << 30).window == source_module.WINDOW
    assert Guest(max_rate=1 << 20).window == 104_857 // PAGE * PAGE
    assert Guest(max_rate=10).window == PAGE


def test_a_missing_file_is_the_callers_business(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_source(tmp_path / "nowhere")


def test_a_directory_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(KafkatoolError, match="is a directory"):
        open_source(tmp_path)


def test_a_pipe_is_read_only_as_far_as_it_is_needed() -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, b"0123456789")
    with PipeSource(read_end, "-", Guest()) as source:
        assert source.read(2, 3) == b"234"  # would hang if it waited for the end
        os.write(write_end, b"abc")
        assert source.read(8, 4) == b"89ab"
        os.close(write_end)
        assert source.read(0, 100) == b"0123456789abc"
        assert source.read(50, 10) == b""


def test_a_pipe_can_be_read_backwards_however_it_was_chopped() -> None:
    data = os.urandom(300_000)
    read_end, write_end = os.pipe()

    def feed() -> None:
        with os.fdopen(write_end, "wb", buffering=0) as pipe:
            for at in range(0, len(data), 7001):
                pipe.write(data[at : at + 7001])
                time.sleep(0)

    thread = threading.Thread(target=feed)
    thread.start()
    with PipeSource(read_end, "-", Guest()) as source:
        assert source.read(200_000, 50_000) == data[200_000:250_000]
        assert source.read(0, 1000) == data[:1000]
        assert source.read(299_990, 100) == data[299_990:]
    thread.join()


def test_a_named_pipe_is_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    thread = threading.Thread(target=lambda: path.write_bytes(b"through"))
    thread.start()
    assert read_small_file(path, Guest(), allow_pipe=True) == b"through"
    thread.join()


def test_nobody_waits_at_a_pipe_that_was_not_asked_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(KafkatoolError, match="is a pipe, expected a file"):
        open_source(tmp_path / "fifo")
    with pytest.raises(KafkatoolError, match="is a device, expected a file"):
        open_source("/dev/zero")
