"""Change files only in given directories, never through links, and with the rights of each directory's owner.

A log directory belongs to the broker's account, but the user who repairs it may be root. That account
controls everything in it, links and journals included, so root must not do there what the account could not:
each operation runs with the file-system ids of the directory's owner (setfsuid(2)), on names looked up
relative to an open directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from kafkatool.engine.files.disk import Disk
from kafkatool.errors import Refused

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ASK_ONLY = -1  # not an id: setfsuid changes nothing and returns the current one


class Owner(NamedTuple):
    uid: int
    gid: int


def owner_of(directory: str) -> Owner:
    """Return the owner of a directory."""
    found = os.stat(directory)
    return Owner(found.st_uid, found.st_gid)


def stand_in_for(directory: str) -> Owner | None:
    """Return the owner whose ids root must use in a directory; None if we keep our own."""
    owner = owner_of(directory)
    return owner if os.geteuid() == 0 and owner.uid != 0 else None


@contextmanager
def acting_as(owner: Owner | None) -> Iterator[None]:
    """Access files with these ids and only their rights; None keeps our own."""
    if owner is None:
        yield
        return
    before = _switch(owner)
    try:
        yield
    finally:
        _switch(before)


def _switch(to: Owner) -> Owner:
    """Switch the file-system ids and return the previous ones. Raises Refused if that fails."""
    import ctypes

    libc = ctypes.CDLL(None)
    before = Owner(libc.setfsuid(to.uid), libc.setfsgid(to.gid))
    if (libc.setfsuid(_ASK_ONLY), libc.setfsgid(_ASK_ONLY)) != to:
        raise Refused(f"the file-system ids {to.uid}:{to.gid} cannot be taken")
    return before


class ConfinedDisk(Disk):
    """The `Files` of the operating system, limited to these directories; raises Refused elsewhere."""

    def __init__(self, directories: Iterable[str]) -> None:
        self._ours = Owner(os.geteuid(), os.getegid()) if os.geteuid() == 0 else None
        self._owners = {os.path.realpath(path): stand_in_for(path) or self._ours for path in directories}

    @contextmanager
    def _at(self, path: str) -> Iterator[tuple[int | None, str]]:
        root, inside = self._place(path)
        try:
            with ExitStack() as opened:
                # Reached with our own ids: the owner of a copy may have no access to its parents.
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
        """Return the innermost allowed directory that a path is in, or else is, and the names below it."""
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
