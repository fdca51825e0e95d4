"""A fixture case on disk: `tests/fixtures/<kind>/<case>/` with a broker's files and an ORIGIN.md."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.places import FIXTURES

# A case beyond this is a mistake: indexes that were not trimmed, or a topic that was not small.
MAX_CASE_BYTES = 80_000

_LEFT_OUT = {".lock"}


class CaseTooLargeError(Exception):
    """The case would not stay small."""


def write_case(kind: str, name: str, sources: Mapping[str, Path] | Iterable[Path], origin: str) -> Path:
    """Copy files and directories into a fresh case. A mapping gives each its name; else they keep theirs."""
    case = FIXTURES / kind / name
    shutil.rmtree(case, ignore_errors=True)
    case.mkdir(parents=True)
    named = sources if isinstance(sources, Mapping) else {source.name: source for source in sources}
    for target, source in named.items():
        _copy(source, case / target)
    (case / "ORIGIN.md").write_text(f"# {kind}/{name}\n\n{origin.strip()}\n")
    size = sum(path.stat().st_size for path in case.rglob("*") if path.is_file())
    if size > MAX_CASE_BYTES:
        raise CaseTooLargeError(f"{case}: {size} bytes")
    return case


def top_level_files(log_dir: Path) -> list[Path]:
    """Everything a broker keeps beside its partitions."""
    return sorted(path for path in log_dir.iterdir() if path.is_file() and path.name not in _LEFT_OUT)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        for child in sorted(source.iterdir()):
            if child.name not in _LEFT_OUT:
                _copy(child, target / child.name)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    # Snapshots are read-only on a broker's disk: a repository keeps ordinary files.
    target.write_bytes(source.read_bytes())
