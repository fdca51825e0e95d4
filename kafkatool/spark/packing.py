"""Pack kafkatool and its dependencies in one archive, for executors that lack them.

Only the standard library is imported here, and functions are sent to executors by value.
"""

from __future__ import annotations

import os
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_OF_KAFKATOOL = ("*.py", "*.so", "py.typed")


def release() -> str:
    """Return what must be the same on both sides."""
    from kafkatool import __version__

    return f"kafkatool {__version__}, Python {sys.version_info.major}.{sys.version_info.minor}"


def release_there(_items: Iterator[object]) -> Iterator[str]:
    """Yield the executor's release, if it can import all that tasks need."""
    try:
        import crc32c  # noqa: F401
        import lz4.frame  # noqa: F401
        import numpy  # noqa: F401
        import pyarrow  # noqa: F401
        import snappy  # noqa: F401
        import zstandard  # noqa: F401

        from kafkatool import __version__
    except ImportError as error:
        yield f"nothing: {error}"
        return
    yield f"kafkatool {__version__}, Python {sys.version_info.major}.{sys.version_info.minor}"


def packed_environment(directory: str) -> str:
    """Write an archive of kafkatool and the distributions it needs; return its path for PYTHONPATH."""
    path = os.path.join(directory, "kafkatool_env.tar.gz")
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for file, name in _files():
            archive.add(file, name, recursive=False)
    return path


def _files() -> Iterator[tuple[Path, str]]:
    import kafkatool

    package = Path(kafkatool.__file__).parent
    for pattern in _OF_KAFKATOOL:
        for file in package.rglob(pattern):
            yield file, f"kafkatool/{file.relative_to(package)}"
    for distribution in _needed():
        for file in distribution.files or ():
            if ".." not in file.parts and not str(file).endswith(".pyc"):
                located = Path(str(file.locate()))
                if located.is_file():
                    yield located, str(file)


def _needed() -> Iterator[Any]:
    """Yield the distributions that kafkatool and its extra `arrow` need, directly or not."""
    from importlib.metadata import PackageNotFoundError, distribution

    seen: set[str] = set()
    waiting = ["kafkatool", "pyarrow"]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue  # of another platform
        waiting += [_name(text) for text in found.requires or () if "extra ==" not in text]
        if name != "kafkatool":
            yield found


def _name(requirement: str) -> str:
    import re

    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None
    return found.group(0).lower().replace("_", "-")
