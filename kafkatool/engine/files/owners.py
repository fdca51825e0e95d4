"""Change files in some directories only, never through links, and as the owner of each directory would.

A log directory belongs to the account of the broker; whoever repairs it may be root. Everything in it, links
and journals included, was put there by that account, so root must not do there what the account could not:
each operation is done with the file-system ids of the owner of the directory (setfsuid(2)), on names looked
up beside an opened directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from kafkatool.engine.files.disk import Disk
from kafkatool.errors import Refused

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ASK_ONLY = -1  # no such id: setfsuid changes nothing, and says which one is in force


class Owner(NamedTuple):
    uid: int
    gid: int


def owner_of(directory: str) -> Owner:
    """Return who owns a directory."""
    found = os.stat(directory)
    return Owner(found.st_uid, found.st_gid)


def stand_in_for(directory: str) -> Owner | None:
    """Return whose ids root uses in a directory instead of its own: its owner's. None: our own."""
    owner = owner_of(directory)
    return owner if os.geteuid() == 0 and owner.uid != 0 else None


@contextmanager
def acting_as(owner: Owner | None) -> Iterator[None]:
    """Reach files with these ids, and with no more rights than they have; None: as we are."""
    if owner is None:
        yield
        return
    before = _switch(owner)
    try:
        yield
    finally:
        _switch(before)


def _switch(to: Owner) -> Owner:
    """Take other file-system ids; returns those that were in force. Raises Refused where that fails."""
    import ctypes

    libc = ctypes.CDLL(None)
    before = Owner(libc.setfsuid(to.uid), libc.setfsgid(to.gid))
    if (libc.setfsuid(_ASK_ONLY), libc.setfsgid(_ASK_ONLY)) != to:
        raise Refused(f"the file-system ids {to.uid}:{to.gid} cannot be taken")
    return before


class ConfinedDisk(Disk):
    """The Files of the operating system within these directories; everything else is Refused."""

    def __init__(self, directories: Iterable[str]) -> None:
        self._ours = Owner(os.geteuid(), os.getegid()) if os.geteuid() == 0 else None
        self._owners = {os.path.realpath(path): stand_in_for(path) or self._ours for path in directories}

    @contextmanager
    def _at(self, path: str) -> Iterator[tuple[int | None, str]]:
        root, inside = self._place(path)
        try:
            with ExitStack() as opened:
                # The way there is the user's: a copy may lie where its owner may not go.
                with acting_as(self._ours):
                    at = _open_directory(root, None, opened)
                opened.enter_context(acting_as(self._owners[root]))
                for name in inside[:-1]:
                    at = _open_directory(name, at, opened)
                yield at, inside[-1] if inside else "."
        except OSError as error:
            if not os.path.isabs(str(error.filename)):
                error.filename = path
            raise

    def _place(self, path: str) -> tuple[str, list[str]]:
        """The innermost confining directory that a path is in, or else is itself, and the names below it."""
        parts = os.path.abspath(path).split(os.sep)
        for count in (*range(len(parts) - 1, 0, -1), len(parts)):
            root = os.sep.join(parts[:count]) or os.sep
            if root in self._owners:
                return root, parts[count:]
        raise Refused(f"{path}: lies in none of the directories that may be changed")


def _open_directory(name: str, beside: int | None, opened: ExitStack) -> int:
    fd = os.open(name, _DIRECTORY, dir_fd=beside)
    opened.callback(os.close, fd)
    return fd
