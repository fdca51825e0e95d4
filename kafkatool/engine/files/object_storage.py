"""Read copies of log directories on object storage as well as on disks: `s3://`, `gs://`, `abfs://`.

The functions here are those of `os` and `os.path`, for both kinds of paths. Objects are listed and read with
pyarrow's file systems, in byte ranges: a walk reads large consecutive pieces. Credentials and endpoint come
from the environment or the machine: `AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, …
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Self
from zlib import crc32

from kafkatool.errors import KafkatoolError, MissingExtra

PIECE = 8 << 20
"""Bytes per request, if that many are left."""
_REMOTE = re.compile(r"(s3|gs|gcs|abfs|abfss)://")
_BLOCK = 512


def is_remote(path: str) -> bool:
    return _REMOTE.match(path) is not None


def real_path(path: str) -> str:
    return path.rstrip("/") if is_remote(path) else os.path.realpath(path)


def absolute_path(path: str) -> str:
    return path.rstrip("/") if is_remote(path) else os.path.abspath(path)


def normal_path(path: str) -> str:
    return path.rstrip("/") if is_remote(path) else os.path.normpath(path)


def status(path: str) -> os.stat_result:
    """Return what os.stat does; raise FileNotFoundError, or KafkatoolError if the storage fails."""
    if not is_remote(path):
        return os.stat(path)
    found = _asked(path, lambda system, inner: system.get_file_info(inner))
    if found.type.name == "NotFound":
        raise FileNotFoundError(2, "No such file or directory", path)
    return _status(found, path)


def exists(path: str) -> bool:
    try:
        status(path)
    except OSError:
        return False
    return True


def is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(status(path).st_mode)
    except OSError:
        return False


def list_names(path: str) -> list[str]:
    with scan_directory(path) as entries:
        return [entry.name for entry in entries]


class RemoteEntry:
    """An object or directory, like os.DirEntry."""

    def __init__(self, path: str, name: str, found: os.stat_result) -> None:
        self.path = path
        self.name = name
        self._found = found

    def stat(self) -> os.stat_result:
        return self._found

    def is_dir(self) -> bool:
        return stat.S_ISDIR(self._found.st_mode)


@contextmanager
def scan_directory(path: str) -> Iterator[Iterator[Any]]:
    """List a directory, like os.scandir."""
    if not is_remote(path):
        with os.scandir(path) as entries:
            yield entries
        return
    from pyarrow.fs import FileSelector

    listed = _asked(path, lambda system, inner: system.get_file_info(FileSelector(inner, recursive=False)))
    base = path.rstrip("/")
    found = ((f"{base}/{one.base_name}", one) for one in listed if one.base_name)
    yield iter([RemoteEntry(inner, one.base_name, _status(one, inner)) for inner, one in found])


def _status(found: Any, path: str) -> os.stat_result:
    is_file = found.type.name == "File"
    mode = stat.S_IFREG | 0o444 if is_file else stat.S_IFDIR | 0o555
    size = found.size or 0 if is_file else 0
    time_ns = found.mtime_ns or 0
    number = crc32(path.encode("utf-8", "surrogateescape"))
    seconds = time_ns // 1_000_000_000
    more = {"st_mtime_ns": time_ns, "st_blocks": -(-size // _BLOCK)}
    return os.stat_result((mode, number, 0, 1, 0, 0, size, seconds, seconds, seconds), more)


@lru_cache(maxsize=64)
def _file_system(base: str, _process: int) -> tuple[Any, str]:
    """Return the file system of a bucket and its path prefix. One per process, as it has threads."""
    try:
        from pyarrow.fs import FileSystem, S3FileSystem
    except ImportError:
        raise MissingExtra(f"{base}: object storage needs", "pyarrow") from None
    scheme, _, bucket = base.partition("://")
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if scheme == "s3":
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        given: dict[str, Any] = {} if region is None else {"region": region}
        if endpoint is not None:
            how, _, host = endpoint.rpartition("://")
            given |= {"endpoint_override": host.rstrip("/"), "scheme": how or "https"}
            given.setdefault("region", "us-east-1")
        return S3FileSystem(**given), bucket
    system, inner = FileSystem.from_uri(base)
    return system, inner


def _asked(path: str, ask: Any) -> Any:
    """Query the storage. Raises FileNotFoundError as such, and all other errors as KafkatoolError."""
    scheme, _, rest = path.partition("://")
    bucket, _, inner = rest.partition("/")
    try:
        system, base = _file_system(f"{scheme}://{bucket}", os.getpid())
        return ask(system, "/".join(filter(None, [base, inner.rstrip("/")])))
    except FileNotFoundError:
        raise FileNotFoundError(2, "No such file or directory", path) from None
    except (OSError, ValueError) as error:
        raise KafkatoolError(f"{path}: {str(error).splitlines()[0]}") from None


class RemoteSource:
    """An object, read in ranges; served from the last piece if that contains the range."""

    def __init__(self, path: str) -> None:
        """Open the object. Raises FileNotFoundError and KafkatoolError."""
        self.name = path
        self.unreadable: list[tuple[int, int]] = []
        self.changed: str | None = None
        self._file = _asked(path, lambda system, inner: system.open_input_file(inner))
        self.size_hint: int | None = self._file.size()
        self._size = self.size_hint or 0
        self._piece = b""
        self._at = 0

    def read(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes from `position`; fewer only at the end."""
        size = min(size, self._size - position)
        if size <= 0:
            return b""
        start = position - self._at
        if not (start >= 0 and start + size <= len(self._piece)):
            want = max(size, min(PIECE, self._size - position))
            try:
                self._piece, self._at = self._file.read_at(want, position), position
            except OSError as error:
                raise KafkatoolError(f"{self.name}: at byte {position}: {error}") from None
            start = 0
        return self._piece[start : start + size]

    def next_data(self, position: int) -> int:
        return position

    def grew(self) -> bool:
        return False

    def look_again(self) -> str | None:
        return None

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
