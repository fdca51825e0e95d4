"""A disk that loses power: every operation has a number, and only what was synced is sure to be there after.

It works on a real directory, so that everything can read what was written, and keeps beside it the history
that a power cut would play with:

    disk = CrashDisk(root, stop_at=7)
    with suppress(PowerCut):
        work(disk)
    survivors(disk, target, keep=everything | nothing | at_random(seed), tear=...)

`stop_at` names the operation during which the power fails: it may or may not have happened, and if it is a
write, part of it may have. `without` is a place in the code, `file.py:123`, whose syncs do nothing: a test
that still passes then does not test that sync. With `file.py:123 .index` only those of such files do nothing.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kafkatool.engine.files.disk import NEW_FILE_MODE, Disk, File, Files, ReadOnlyFile
from kafkatool.format.primitives import Buffer

Keep = Callable[[], bool]


class PowerCut(BaseException):
    """Not an Exception: no handler of the program may survive it."""


@dataclass
class Change:
    """What was done to a file's content or attributes and not yet synced."""

    kind: str  # write, truncate, mtime, mode
    at: int
    data: bytes = b""


@dataclass
class FileNode:
    durable: bytearray = field(default_factory=bytearray)
    attributes: dict[str, int] = field(default_factory=dict)
    pending: list[Change] = field(default_factory=list)

    def settle(self) -> None:
        for change in self.pending:
            apply_change(self.durable, self.attributes, change)
        self.pending.clear()


@dataclass
class DirNode:
    durable: dict[str, Node] = field(default_factory=dict)
    current: dict[str, Node] = field(default_factory=dict)
    pending: list[NameChange] = field(default_factory=list)

    def settle(self) -> None:
        for change in self.pending:
            apply_names(self.durable, change.names)
        self.pending.clear()


@dataclass
class LinkNode:
    """A symbolic link: it is there, or its name is not."""

    target: str


Node = FileNode | DirNode | LinkNode


@dataclass
class NameChange:
    """Names of one directory set or removed together, or not at all."""

    names: dict[str, Node | None]


def apply_change(content: bytearray, attributes: dict[str, int], change: Change) -> None:
    if change.kind == "write":
        end = change.at + len(change.data)
        content.extend(bytes(max(0, end - len(content))))
        content[change.at : end] = change.data
    elif change.kind == "truncate":
        content.extend(bytes(max(0, change.at - len(content))))
        del content[change.at :]
    else:
        attributes[change.kind] = change.at


def apply_names(entries: dict[str, Node], names: dict[str, Node | None]) -> None:
    for name, node in names.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class CrashDisk:
    """Files over a real directory, `root`, with a history; what was there at the start is durable."""

    def __init__(
        self, root: str | os.PathLike[str], *, stop_at: int | None = None, without: str | None = None
    ) -> None:
        self.root = os.path.abspath(root)
        self.stop_at = stop_at
        self.without = without
        self.operations: list[str] = []
        self.sync_sites: set[str] = set()
        self.is_cut = False
        self._last_write: Change | None = None
        self._disk: Files = Disk()
        self._opened: list[File] = []
        self._tree = _read_tree(self.root)

    # --- the Files interface ------------------------------------------------------------------------

    def __deepcopy__(self, _memo: object) -> CrashDisk:
        """There is one disk, however often what writes to it is copied."""
        return self

    def stat(self, path: str) -> os.stat_result:
        return self._disk.stat(path)

    def open_to_read(self, path: str) -> ReadOnlyFile:
        return self._disk.open_to_read(path)

    def open(self, path: str) -> File:
        return self._guarded(self._file(path), self._disk.open(path))

    def create(self, path: str, *, mode: int = NEW_FILE_MODE) -> File:
        cut = self._begin(f"create {self._short(path)}")
        node = FileNode()
        real = self._disk.create(path, mode=mode)
        self._name(path, node)
        file = self._guarded(node, real)
        self._end(cut)
        return file

    def _guarded(self, node: FileNode, real: File) -> File:
        self._opened.append(real)
        return CrashFile(self, node, real)

    def close(self) -> None:
        """What a power cut would: nobody has anything open any more."""
        for real in self._opened:
            real.close()

    def rename(self, source: str, target: str) -> None:
        cut = self._begin(f"rename {self._short(source)} {self._short(target)}")
        node = self._node(source)
        self._disk.rename(source, target)
        if os.path.dirname(source) == os.path.dirname(target):
            self._change(self._dir(source), {os.path.basename(source): None, os.path.basename(target): node})
        else:
            self._name(target, node)
            self._name(source, None)
        self._end(cut)

    def link(self, source: str, target: str) -> None:
        cut = self._begin(f"link {self._short(source)} {self._short(target)}")
        self._disk.link(source, target)
        self._name(target, self._node(source))
        self._end(cut)

    def symlink(self, target: str, path: str) -> None:
        cut = self._begin(f"symlink {target} {self._short(path)}")
        self._disk.symlink(target, path)
        self._name(path, LinkNode(target))
        self._end(cut)

    def unlink(self, path: str) -> None:
        cut = self._begin(f"unlink {self._short(path)}")
        self._disk.unlink(path)
        self._name(path, None)
        self._end(cut)

    def make_directory(self, path: str) -> None:
        cut = self._begin(f"make_directory {self._short(path)}")
        self._disk.make_directory(path)
        self._name(path, DirNode())
        self._end(cut)

    def remove_directory(self, path: str) -> None:
        cut = self._begin(f"remove_directory {self._short(path)}")
        self._disk.remove_directory(path)
        self._name(path, None)
        self._end(cut)

    def sync_directory(self, path: str) -> None:
        self._end(self._begin(f"sync_directory {self._short(path)}"))
        if self._sync_counts(path):
            node = self._node(path)
            assert isinstance(node, DirNode)
            node.settle()

    def set_mtime(self, path: str, mtime_ns: int) -> None:
        self._attribute(path, "mtime", mtime_ns)
        self._disk.set_mtime(path, mtime_ns)

    def set_mode(self, path: str, mode: int) -> None:
        self._attribute(path, "mode", mode)
        self._disk.set_mode(path, mode)

    def set_owner(self, path: str, uid: int, gid: int) -> None:
        """Numbered, and done; which owner survives is not told apart."""
        self._end(self._begin(f"set_owner {self._short(path)}"))
        self._disk.set_owner(path, uid, gid)

    def set_attribute(self, path: str, name: str, value: bytes) -> None:
        self._end(self._begin(f"set_attribute {self._short(path)}"))
        self._disk.set_attribute(path, name, value)

    def free_space(self, path: str) -> int:
        return self._disk.free_space(path)

    # --- the history --------------------------------------------------------------------------------

    def _begin(self, operation: str) -> bool:
        """Number the operation; True if the power fails during it. Nothing happens after a cut."""
        if self.is_cut:
            raise PowerCut(operation)
        self.operations.append(operation)
        self._last_write = None
        return self.stop_at == len(self.operations) - 1

    def _end(self, cut: bool) -> None:
        if cut:
            self.is_cut = True
            raise PowerCut(self.operations[-1])

    def write(self, node: FileNode, real: File, position: int, data: bytes) -> None:
        cut = self._begin(f"write {self._short(real.path)} {position}+{len(data)}")
        change = Change("write", position, data)
        node.pending.append(change)
        real.write_at(position, data)
        if cut:
            self._last_write = change
        self._end(cut)

    def truncate(self, node: FileNode, real: File, size: int) -> None:
        cut = self._begin(f"truncate {self._short(real.path)} {size}")
        node.pending.append(Change("truncate", size))
        real.truncate(size)
        self._end(cut)

    def sync(self, node: FileNode, path: str) -> None:
        self._end(self._begin(f"sync {self._short(path)}"))
        if self._sync_counts(path):
            node.settle()

    def _attribute(self, path: str, kind: str, value: int) -> None:
        cut = self._begin(f"set_{kind} {self._short(path)}")
        node = self._node(path)
        if isinstance(node, FileNode):
            node.pending.append(Change(kind, value))
        self._end(cut)

    def _sync_counts(self, path: str) -> bool:
        frame = sys._getframe(1)
        while os.path.basename(frame.f_code.co_filename) == os.path.basename(__file__):
            assert frame.f_back is not None
            frame = frame.f_back
        site = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
        self.sync_sites.add(site)
        return self.without not in (site, f"{site} {os.path.splitext(path)[1]}")

    def _short(self, path: str) -> str:
        return os.path.relpath(path, self.root)

    def _dir(self, path: str) -> DirNode:
        node = self._node(os.path.dirname(os.path.abspath(path)))
        assert isinstance(node, DirNode)
        return node

    def _file(self, path: str) -> FileNode:
        node = self._node(path)
        assert isinstance(node, FileNode)
        return node

    def _node(self, path: str) -> Node:
        node: Node = self._tree
        parts = os.path.relpath(os.path.abspath(path), self.root).split(os.sep)
        for part in [] if parts == ["."] else parts:
            assert isinstance(node, DirNode), path
            node = node.current[part]
        return node

    def _name(self, path: str, node: Node | None) -> None:
        self._change(self._dir(path), {os.path.basename(path): node})

    def _change(self, directory: DirNode, names: dict[str, Node | None]) -> None:
        directory.pending.append(NameChange(names))
        apply_names(directory.current, names)

    def survivors(
        self, target: str | os.PathLike[str], *, keep: Keep, tear: Callable[[int], int] = lambda size: size
    ) -> Path:
        """Write what a power cut now would leave into a new directory.

        `keep` is asked for every unsynced change; `tear` says how many bytes of the write that the cut
        interrupted came through, if that write is kept.
        """
        os.mkdir(target)
        _write_tree(Path(target), self._tree, keep, self._torn(tear))
        return Path(target)

    def _torn(self, tear: Callable[[int], int]) -> Callable[[Change], Change]:
        def torn(change: Change) -> Change:
            if change is not self._last_write:
                return change
            return Change("write", change.at, change.data[: tear(len(change.data))])

        return torn


class CrashFile:
    """A File whose writes are remembered until they are synced."""

    def __init__(self, disk: CrashDisk, node: FileNode, real: File) -> None:
        self.path = real.path
        self._disk = disk
        self._node = node
        self._real = real

    def size(self) -> int:
        return self._real.size()

    def read_at(self, position: int, size: int) -> bytes:
        return self._real.read_at(position, size)

    def write_at(self, position: int, data: Buffer) -> None:
        self._disk.write(self._node, self._real, position, bytes(data))

    def truncate(self, size: int) -> None:
        self._disk.truncate(self._node, self._real, size)

    def sync(self) -> None:
        self._disk.sync(self._node, self.path)

    def lock(self) -> bool:
        return self._real.lock()

    def close(self) -> None:
        self._real.close()


def everything() -> bool:
    """Keep: the disk was luckier than it had to be."""
    return True


def nothing() -> bool:
    """Keep: the disk did only what it had promised."""
    return False


def at_random(seed: int) -> Keep:
    """Keep: any subset, the same for the same seed."""
    chance = random.Random(seed)
    return lambda: chance.random() < 0.5


def every_way(seed: int) -> Iterator[tuple[str, Keep, Callable[[int], int]]]:
    """The ways to lose power that a test should try: (name, keep, tear)."""
    chance = random.Random(seed)
    yield "all kept", everything, lambda size: size
    yield "all kept, last write torn", everything, lambda size: chance.randrange(size + 1)
    yield "all lost", nothing, lambda size: 0
    yield "some lost", at_random(seed), lambda size: chance.randrange(size + 1)


@dataclass(frozen=True)
class Crash:
    """What a power cut left of a directory. `done`: the work had ended before it."""

    left: Path
    done: bool
    way: str
    operations: list[str]
    sync_sites: set[str]


def every_crash(
    scratch: Path,
    prepare: Callable[[Path], object],
    work: Callable[[CrashDisk], object],
    without: str | None = None,
    chances: int = 1,
) -> Iterator[Crash]:
    """Do a piece of work on a prepared directory, and cut the power at each of its operations in turn.

    What is lost is drawn so many times.
    """
    number, is_done = 0, False
    while not is_done:
        root = scratch / "disk"
        root.mkdir(parents=True)
        prepare(root)
        disk = CrashDisk(root, stop_at=number, without=without)
        with suppress(PowerCut):
            work(disk)
            is_done = True
        disk.close()
        seeds = range(number + 1000, number + 1000 * chances, 1000)
        drawn = [("some lost", at_random(seed), lambda size: size // 2) for seed in seeds]
        for way, keep, tear in (*every_way(number), *drawn):
            left = disk.survivors(scratch / "left", keep=keep, tear=tear)
            yield Crash(left, is_done, way, disk.operations, disk.sync_sites)
            shutil.rmtree(left)
        shutil.rmtree(root)
        number += 1


def contents(directory: Path) -> dict[str, bytes]:
    """The bytes of every file below a directory that some name leads to, by its path."""
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


def _read_tree(path: str) -> DirNode:
    node = DirNode()
    for entry in os.scandir(path):
        if entry.is_symlink():
            node.durable[entry.name] = LinkNode(os.readlink(entry.path))
        elif entry.is_dir():
            node.durable[entry.name] = _read_tree(entry.path)
        else:
            content = bytearray(Path(entry.path).read_bytes())
            node.durable[entry.name] = FileNode(content, {"mtime": entry.stat().st_mtime_ns})
    node.current = dict(node.durable)
    return node


def _write_tree(target: Path, node: DirNode, keep: Keep, torn: Callable[[Change], Change]) -> None:
    entries = dict(node.durable)
    for change in node.pending:
        if keep():
            apply_names(entries, change.names)
    for name, child in entries.items():
        if isinstance(child, DirNode):
            (target / name).mkdir()
            _write_tree(target / name, child, keep, torn)
            continue
        if isinstance(child, LinkNode):
            (target / name).symlink_to(child.target)
            continue
        content, attributes = bytearray(child.durable), dict(child.attributes)
        for pending in child.pending:
            if keep():
                apply_change(content, attributes, torn(pending))
        (target / name).write_bytes(content)
        if "mtime" in attributes:
            os.utime(target / name, ns=(attributes["mtime"], attributes["mtime"]))
