"""Read without disturbing a broker's page cache: cached data stays cached, other data is not kept there.

A `Source` returns bytes by position and does not raise for a bad disk or a file that changes: unreadable
blocks are returned as zeros and listed, a file that shrinks simply ends early. Nothing is mapped for reading,
so a truncated file cannot kill us.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from bisect import insort
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import IO, Protocol, Self

from kafkatool.engine.files import page_cache
from kafkatool.engine.files.object_storage import RemoteSource, is_remote
from kafkatool.engine.files.page_cache import PAGE, PageRange
from kafkatool.errors import KafkatoolError

WINDOW = 1 << 20
BLIND_WINDOW = 128 << 10  # if residency is unknown
BLOCK = 4096  # the smallest read from a bad disk
SPOOL_IN_MEMORY = 8 << 20
_LEAST_READ = 64 << 10  # of a small file, holes or not

ByteRange = tuple[int, int]
"""First byte, and the byte after the last."""

Pread = Callable[[int, int, int], bytes]
"""os.pread, or a fault-injecting replacement."""

# Errors of a failing disk or a broken file system. Other errors are not the medium's fault.
_MEDIUM_ERRORS = frozenset(
    {errno.EIO, errno.EREMOTEIO, errno.ENODATA, errno.EBADMSG, errno.EUCLEAN, errno.EILSEQ, errno.ETIMEDOUT}
)


class Source(Protocol):
    """Bytes by position, from a file or a pipe."""

    name: str
    size_hint: int | None
    """Size at opening; None for a pipe."""
    unreadable: list[ByteRange]
    """Ranges that could not be read, merged and sorted; they were returned as zeros."""
    changed: str | None
    """How the file changed while it was read, in words; None if no change was noticed."""

    def read(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes; fewer only at the end. For bad blocks, raises only past max_errors."""

    def next_data(self, position: int) -> int:
        """Return the first byte from `position` on that is not in a hole; the file's end if there is none.

        Return `position` itself if holes cannot be detected.
        """

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


class Pace:
    """Limits the read rate: a reader that is too fast sleeps."""

    def __init__(self, rate: int | None) -> None:
        self.rate = rate
        self._free_at = 0.0

    def spend(self, size: int) -> None:
        """Count `size` bytes, and wait while they are ahead of the rate."""
        if not self.rate:
            return
        now = time.monotonic()
        # Idle time is not saved up for a later burst.
        self._free_at = max(self._free_at, now) + size / self.rate
        if self._free_at > now:
            time.sleep(self._free_at - now)


class Mending(Protocol):
    """Mends logs as they are opened."""

    def mend(self, source: FileSource) -> None:
        """Make `source` return mended bytes where its file has a flipped bit."""


@dataclass(slots=True)
class _Errors:
    count: int = 0


@dataclass(frozen=True, slots=True)
class Guest:
    """How to read on a machine with a running broker. Rate and errors count over all files together."""

    cache_keep: bool = False
    max_rate: int | None = None
    max_errors: int | None = None
    mending: Mending | None = field(default=None, compare=False, repr=False)
    """None: bytes are returned unchanged."""
    pace: Pace = field(init=False, compare=False, repr=False)
    errors: _Errors = field(default_factory=_Errors, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pace", Pace(self.max_rate))

    def one_of(self, count: int) -> Guest:
        """Return the settings for each of `count` readers that together keep these limits."""
        if not self.max_rate or count == 1:
            return self
        return replace(self, max_rate=max(1, self.max_rate // count))

    @property
    def window(self) -> int:
        """Bytes per read: at a limited rate, a tenth of a second's worth, so that reading is steady."""
        if not self.max_rate:
            return WINDOW
        return max(PAGE, min(WINDOW, self.max_rate // 10 // PAGE * PAGE))


def open_source(
    path: str | os.PathLike[str], guest: Guest | None = None, *, allow_pipe: bool = False
) -> AnySource:
    """Open a file read-only, without changing its access time; with `allow_pipe`, also a named pipe.

    Raises KafkatoolError if it cannot be opened, but FileNotFoundError as such: files of a live broker
    vanish, and only the caller knows whether that matters.
    """
    name = os.fspath(path)
    if is_remote(name):
        return RemoteSource(name)
    # Opening a pipe blocks until there is a writer, which may never come.
    fd = _open_read_only(name, 0 if allow_pipe else os.O_NONBLOCK)
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode) or stat.S_ISBLK(mode):
        source = FileSource(fd, name, guest or Guest())
        if guest is not None and guest.mending is not None:
            guest.mending.mend(source)
        return source
    if allow_pipe and not stat.S_ISDIR(mode):
        return PipeSource(fd, name, guest or Guest())
    os.close(fd)
    raise KafkatoolError(f"{name}: is {file_type(mode)}, expected a file")


def file_type(mode: int) -> str:
    """Return in words what is there instead of a regular file."""
    kinds = ((stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    return next((words for holds, words in kinds if holds(mode)), "a device")


def open_stdin(guest: Guest | None = None) -> FileSource | PipeSource:
    """Open standard input; `< file` is read like that file, a pipe only as far as needed."""
    try:
        fd = os.dup(0)
    except OSError as error:
        raise KafkatoolError(f"standard input: {error.strerror}") from error
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return FileSource(fd, "-", guest or Guest())
    return PipeSource(fd, "-", guest or Guest())


def read_small_file(
    path: str | os.PathLike[str], guest: Guest, limit: int = 64 << 20, *, allow_pipe: bool = False
) -> bytes:
    """Read a small file: up to `limit` bytes, without most of a hole at its end. Raises like open_source."""
    with open_source(path, guest, allow_pipe=allow_pipe) as source:
        return source.read(0, without_hole(source, limit))


def read_whole_file(path: str | os.PathLike[str], guest: Guest, limit: int = 64 << 20) -> bytes:
    """Read a small file; also raises KafkatoolError if the disk cannot read all of it."""
    with open_source(path, guest) as source:
        data = source.read(0, without_hole(source, limit))
        if source.unreadable:
            start, end = source.unreadable[0]
            raise KafkatoolError(f"{os.fspath(path)}: the disk does not give bytes {start} to {end - 1}")
    return data


def without_hole(source: Source, limit: int) -> int:
    """Return how many of the first `limit` bytes to read: of a hole at the end, one block is enough."""
    size = source.size_hint
    end = _LEAST_READ
    while size is not None and end < min(size, limit):
        if source.next_data(end) >= size:
            return end + BLOCK
        end *= 2
    return limit


def _open_read_only(name: str, more_flags: int) -> int:
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | more_flags
    try:
        try:
            return os.open(name, flags | getattr(os, "O_NOATIME", 0))
        except PermissionError:  # O_NOATIME is for the owner only
            return os.open(name, flags)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise KafkatoolError(f"{name}: {error.strerror}") from error


class FileSource:
    """A regular file or block device, with its size at opening."""

    def __init__(self, fd: int, name: str, guest: Guest, pread: Pread = os.pread) -> None:
        """Take over `fd`; `close` closes it."""
        self.name = name
        self.unreadable: list[ByteRange] = []
        self.changed: str | None = None
        self.patches: dict[int, int] = {}
        """Bytes to return instead of those on the disk, by position."""
        self._fd = fd
        self._guest = guest
        self._pread = pread
        self._is_regular = stat.S_ISREG(os.fstat(fd).st_mode)
        self.size_hint: int | None = os.lseek(fd, 0, os.SEEK_END)  # a block device has no st_size
        self._size = self.size_hint or 0
        self._ours: list[PageRange] = []
        self._residency: page_cache.Residency | None = None
        self._window = guest.window
        if not guest.cache_keep and self._is_regular and self._size:
            self._be_neutral()

    def _be_neutral(self) -> None:
        # Without this the kernel reads ahead, and leaves pages in the cache that we never asked for.
        os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_RANDOM)
        self._residency = page_cache.Residency.of(self._fd, self._size)
        if self._residency is None:
            self._window = min(self._window, BLIND_WINDOW)

    def fileno(self) -> int:
        """Return the descriptor, for calls that bypass this class."""
        return self._fd

    def read(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes from `position`; fewer only at the end. Unreadable blocks are zeros."""
        if self.patches:
            return patched(self._read(position, size), position, self.patches)
        return self._read(position, size)

    def _read(self, position: int, size: int) -> bytes:
        size = min(size, self._size - position)
        if size <= self._window:
            return self._read_window(position, size) if size > 0 else b""
        pieces = []
        while size > 0:
            piece = self._read_window(position, min(size, self._window))
            pieces.append(piece)
            position += len(piece)
            size = size - len(piece) if piece and not self.changed else 0
        return b"".join(pieces)

    def next_data(self, position: int) -> int:
        if not self._is_regular or position >= self._size:
            return position
        try:
            return min(self._size, os.lseek(self._fd, position, os.SEEK_DATA))
        except OSError as error:  # ENXIO: only a hole up to the end
            return self._size if error.errno == errno.ENXIO else position

    def _read_window(self, position: int, size: int) -> bytes:
        self._guest.pace.spend(size)
        if self._residency is None:
            return self._read_fully(position, size)
        first, end = position // PAGE, -(-(position + size) // PAGE)
        absent = self._residency.absent(first, end)
        if not absent and not self._ours:
            return self._read_fully(position, size)
        data = self._read_fully(position, size)
        self._forget(absent, first, end)
        return data

    def _forget(self, absent: list[PageRange], first: int, end: int) -> None:
        """Drop the pages that earlier windows loaded; keep those of this window until the next one.

        A walk reads a batch that was cut off by the window's end again: if dropped at once, it would be read
        from the disk twice.
        """
        page_cache.drop(self._fd, page_cache.without(self._ours, first, end))
        self._ours = sorted(absent + page_cache.only_within(self._ours, first, end))

    def _read_fully(self, position: int, size: int) -> bytes:
        try:
            data = self._pread(self._fd, size, position)
        except OSError as error:
            data = self._read_around(position, size, error)
        if len(data) == size:
            return data
        return self._read_the_rest(data, position, size)

    def _read_the_rest(self, data: bytes, position: int, size: int) -> bytes:
        """Complete a short read: a bad block follows, or the file shrank and ends here."""
        pieces = [data]
        got = len(data)
        while got < size:
            try:
                piece = self._pread(self._fd, size - got, position + got)
            except OSError as error:
                piece = self._read_around(position + got, size - got, error)
            if not piece:
                self.changed = self.changed or f"shrank below {position + got} bytes while it was read"
                break
            pieces.append(piece)
            got += len(piece)
        return b"".join(pieces)

    def _read_around(self, position: int, size: int, error: OSError) -> bytes:
        """Read what is readable of this range, in smaller and smaller blocks, with zeros for the rest."""
        if error.errno == errno.ESTALE:
            self.changed = self.changed or "was replaced on its server while it was read"
            return b""
        if error.errno not in _MEDIUM_ERRORS:
            raise KafkatoolError(f"{self.name}: {error.strerror} at byte {position}") from error
        block_end = (position // BLOCK + 1) * BLOCK
        if position + size <= block_end:
            self._note_unreadable(position, size)
            return bytes(size)
        middle = max(block_end, (position + size // 2) // BLOCK * BLOCK)
        left = self._read_fully(position, middle - position)
        if len(left) < middle - position:
            return left
        return left + self._read_fully(middle, position + size - middle)

    def _note_unreadable(self, position: int, size: int) -> None:
        if not any(start <= position and position + size <= end for start, end in self.unreadable):
            self._guest.errors.count += 1  # a block read twice is still one bad block
        _merge(self.unreadable, (position, position + size))
        limit = self._guest.max_errors
        if limit is not None and self._guest.errors.count > limit:
            raise KafkatoolError(
                f"{self.name}: unreadable at byte {position}: more than {limit} bad blocks, stopped; "
                "image the disk before reading on"
            )

    def grew(self) -> bool:
        """Whether the file is larger now than when it was opened, so being written."""
        return self._is_regular and os.fstat(self._fd).st_size > self._size

    def look_again(self) -> str | None:
        """Check at the end of a walk whether the file changed; returns the words of `changed`."""
        now = os.fstat(self._fd)
        if self.changed is None and self._is_regular:
            if now.st_nlink == 0:
                self.changed = "was deleted while it was read"
            elif now.st_size < self._size:
                self.changed = f"shrank from {self._size} to {now.st_size} bytes while it was read"
        return self.changed

    def close(self) -> None:
        if self._fd < 0:
            return
        page_cache.drop(self._fd, self._ours)
        self._ours = []
        if self._residency is not None:
            self._residency.close()
            self._residency = None
        os.close(self._fd)
        self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def patched(data: bytes, position: int, patches: Mapping[int, int]) -> bytes:
    """Return the bytes at `position` with the patches applied."""
    within = [at for at in patches if position <= at < position + len(data)]
    if not within:
        return data
    changed = bytearray(data)
    for at in within:
        changed[at - position] = patches[at]
    return bytes(changed)


def _merge(ranges: list[ByteRange], new: ByteRange) -> None:
    """Add a range to sorted ranges, joining those that touch."""
    start, end = new
    apart = [r for r in ranges if r[1] < start or r[0] > end]
    touching = [r for r in ranges if not (r[1] < start or r[0] > end)]
    insort(apart, (min([start, *(r[0] for r in touching)]), max([end, *(r[1] for r in touching)])))
    ranges[:] = apart


class PipeSource:
    """A pipe: read only as far as requested, and spooled so that a reader can go back."""

    def __init__(self, fd: int, name: str, guest: Guest) -> None:
        """Take over `fd`; `close` closes it."""
        self.name = name
        self.size_hint: int | None = None
        self.unreadable: list[ByteRange] = []
        self.changed: str | None = None
        self._fd = fd
        self._guest = guest
        self._spool: IO[bytes] | None = None
        self._have = 0
        self._ended = False

    def read(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes from `position`; waits for them, fewer only at the end."""
        spool = self._spool = self._spool or _new_spool()
        spool.seek(0, os.SEEK_END)
        while self._have < position + size and not self._ended:
            self._take(spool, min(self._guest.window, position + size - self._have))
        spool.seek(position)
        return spool.read(max(0, size))

    def next_data(self, position: int) -> int:
        return position

    def _take(self, spool: IO[bytes], size: int) -> None:
        try:
            piece = os.read(self._fd, size)
            spool.write(piece)
        except OSError as error:
            raise KafkatoolError(f"{self.name}: {error.strerror}") from error
        self._guest.pace.spend(len(piece))
        self._have += len(piece)
        self._ended = not piece

    def grew(self) -> bool:
        return False

    def look_again(self) -> str | None:
        return None

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _new_spool() -> IO[bytes]:
    import tempfile

    # It has no name, so nothing is left over however we end.
    return tempfile.SpooledTemporaryFile(SPOOL_IN_MEMORY)


AnySource = FileSource | PipeSource | RemoteSource
