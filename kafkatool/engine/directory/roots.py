"""Log directories of several brokers, each under its own label."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from kafkatool.engine.directory.targets import Target, expand
from kafkatool.engine.files.object_storage import absolute_path
from kafkatool.errors import UsageError

_LABELLED = re.compile(r"([A-Za-z0-9_.-]+)=(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Root:
    """What one argument names, or one match of its glob."""

    label: str
    targets: tuple[Target, ...]


def read_roots(paths: Iterable[str], problems: list[str]) -> list[Root]:
    """Read `label=PATH`, where PATH is a path or a glob; without a label, the path is the label.

    Raises UsageError if two roots have the same label.
    """
    roots: list[Root] = []
    for text in paths:
        label, path = split_label(text)
        found = expand([path], allow_stdin=False)
        problems += found.problems
        if label is None:
            roots += [Root(target.path, (target,)) for target in found.targets]
        else:
            roots.append(Root(label, tuple(found.targets)))
    seen: set[str] = set()
    for root in roots:
        if root.label in seen:
            raise UsageError(f"{root.label}: named twice: every root needs a label of its own")
        seen.add(root.label)
    return roots


def absolute(text: str) -> str:
    """Return the same root with an absolute path, for a process with another working directory."""
    label, path = split_label(text)
    found = absolute_path(path)
    return found if label is None else f"{label}={found}"


def split_label(text: str) -> tuple[str | None, str]:
    """Split into label (or None) and path; if a file has the whole name, it is a path."""
    found = _LABELLED.fullmatch(text)
    if found is None or os.path.lexists(text):
        return None, text
    return found.group(1), found.group(2)
