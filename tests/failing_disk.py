"""A file system whose blocks really fail: served to the kernel by FUSE, so that read(2) itself returns EIO.

The few messages needed are spoken here, because no library for them is worth a dependency of the tests. All
integers are little-endian. Every request opens with

    u32 length, u32 opcode, u64 unique, u64 node, u32 uid, u32 gid, u32 pid, u32 padding

and every answer with u32 length, i32 error (0 or -errno), u64 unique.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from enum import IntEnum
from pathlib import Path

import pytest

_REQUEST = struct.Struct("<IIQQIIII")
_ANSWER = struct.Struct("<IiQ")
_ATTRIBUTES = struct.Struct("<QQQQQQIIIIIIIIII")
_ROOT = 1
_BLOCK = 4096


class _Op(IntEnum):
    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    OPEN = 14
    READ = 15
    RELEASE = 18
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    ACCESS = 34
    INTERRUPT = 36
    BATCH_FORGET = 42


_SILENT = (_Op.FORGET, _Op.INTERRUPT, _Op.BATCH_FORGET)

BadRanges = dict[str, list[tuple[int, int]]]


class _Disk:
    def __init__(self, files: dict[str, bytes], bad: BadRanges) -> None:
        self.names = [".", *files]  # node 1 is the root, node n + 1 the n-th file
        self.data = [b"", *files.values()]
        self.bad = [[], *(bad.get(name, []) for name in files)]

    def serve(self, device: int) -> None:
        while True:
            try:
                request = os.read(device, 1 << 20)
            except OSError:  # unmounted
                return
            _, opcode, unique, node, *_ = _REQUEST.unpack_from(request)
            body = request[_REQUEST.size :]
            if opcode in _SILENT:
                continue
            try:
                answer, error = self._answer(opcode, node, body), 0
            except OSError as problem:
                answer, error = b"", -(problem.errno or errno.EIO)
            with suppress(FileNotFoundError):  # the reader has gone
                os.write(device, _ANSWER.pack(_ANSWER.size + len(answer), error, unique) + answer)

    def _answer(self, opcode: int, node: int, body: bytes) -> bytes:
        match opcode:
            case _Op.INIT:
                return struct.pack("<IIIIHHIIHHII24x", 7, 31, 0, 0, 12, 10, 1 << 16, 1, 32, 0, 0, 0)
            case _Op.LOOKUP:
                return self._entry(body.rstrip(b"\0").decode())
            case _Op.GETATTR:
                return struct.pack("<QII", 3600, 0, 0) + self._attributes(node)
            case _Op.OPEN | _Op.OPENDIR:
                return bytes(16)
            case _Op.READ:
                return self._read(node, body)
            case _Op.READDIR:
                return self._list(body)
            case _Op.RELEASE | _Op.FLUSH | _Op.RELEASEDIR | _Op.ACCESS:
                return b""
        raise OSError(errno.ENOSYS, "not needed")

    def _entry(self, name: str) -> bytes:
        if name not in self.names:
            raise OSError(errno.ENOENT, name)
        node = self.names.index(name) + 1
        return struct.pack("<QQQQII", node, 0, 3600, 3600, 0, 0) + self._attributes(node)

    def _attributes(self, node: int) -> bytes:
        size = len(self.data[node - 1])
        mode = stat.S_IFDIR | 0o755 if node == _ROOT else stat.S_IFREG | 0o644
        times = (0, 0, 0, 0, 0, 0)
        return _ATTRIBUTES.pack(node, size, -(-size // 512), *times, mode, 1, 0, 0, 0, _BLOCK, 0)

    def _read(self, node: int, body: bytes) -> bytes:
        _, start, size = struct.unpack_from("<QQI", body)
        if any(first < start + size and start < last for first, last in self.bad[node - 1]):
            raise OSError(errno.EIO, "a bad block")
        return self.data[node - 1][start : start + size]

    def _list(self, body: bytes) -> bytes:
        _, start, _ = struct.unpack_from("<QQI", body)
        out = b""
        for at, name in list(enumerate(self.names))[start:]:
            raw = name.encode()
            entry = struct.pack("<QQII", at + 1, at + 1, len(raw), 4 if at == 0 else 8) + raw
            out += entry.ljust(-(-len(entry) // 8) * 8, b"\0")
        return out


@contextmanager
def failing_disk(
    mount: Path, files: dict[str, bytes], bad: BadRanges, *, read_only: bool = True
) -> Iterator[Path]:
    """Mount these files; reading any of the bad byte ranges fails with EIO. Skips without root or FUSE.

    Without `read_only` they can be opened for writing, which then fails.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError as problem:
        pytest.skip(f"a file system that fails needs FUSE: {problem.strerror}")
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"kafkatool", os.fsencode(mount), b"fuse", int(read_only) | 0x2 | 0x4, options) != 0:
        os.close(device)
        pytest.skip(f"mounting needs root: {os.strerror(ctypes.get_errno())}")
    server = threading.Thread(target=_Disk(files, bad).serve, args=(device,), daemon=True)
    server.start()
    try:
        yield mount
    finally:
        libc.umount2(os.fsencode(mount), 2)
        server.join(10)
        os.close(device)


@contextmanager
def on_failing_disk(directory: Path, mount: Path, name: str, *bad: tuple[int, int]) -> Iterator[None]:
    """Move a file of a partition to a disk that fails, and link to it."""
    mount.mkdir()
    data = (directory / name).read_bytes()
    with ExitStack() as stack:
        disk = stack.enter_context(failing_disk(mount, {name: data}, {name: list(bad)}))
        (directory / name).unlink()
        (directory / name).symlink_to(disk / name)
        yield
