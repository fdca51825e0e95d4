"""How often directories are listed: each that is needed once, and no other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kafkatool.engine.files.object_storage import scan_directory
from tests.cli import run
from tests.logs import batches, write_log

PLANS = ("recover", "retention", "compact", "cat", "serve --list")


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    for number in range(4):
        write_log(tmp_path / f"orders-{number}", b"".join(batches(3)))
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    return tmp_path


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """By path, how often a directory was listed."""
    counts: Counter[str] = Counter()

    @contextmanager
    def counted(path: str) -> Iterator[Iterator[Any]]:
        counts[path] += 1
        with scan_directory(path) as entries:
            yield entries

    monkeypatch.setattr("kafkatool.engine.directory.log_dir.scan_directory", counted)
    return counts


@pytest.mark.parametrize("words", PLANS)
def test_of_one_named_partition_only_it_and_the_top_of_its_log_directory_are_listed(
    words: str, log_dir: Path, listed: Counter[str]
) -> None:
    run(*words.split(), log_dir / "orders-2")
    assert set(listed) == {str(log_dir), str(log_dir / "orders-2")}


READERS = ("verify", "report -o -", "stats")


@pytest.mark.parametrize("words", READERS)
def test_each_directory_is_listed_once(words: str, log_dir: Path, listed: Counter[str]) -> None:
    run(*words.split(), "--jobs", 1, log_dir)
    assert listed == Counter([str(log_dir), *(str(log_dir / f"orders-{number}") for number in range(4))])


@pytest.mark.parametrize("words", READERS)
def test_of_named_partitions_each_is_listed_once_and_the_top_of_their_log_directory_at_most(
    words: str, log_dir: Path, listed: Counter[str]
) -> None:
    some = [log_dir / "orders-1", log_dir / "orders-3"]
    run(*words.split(), "--jobs", 1, *some)
    assert listed - Counter([str(log_dir)]) == Counter(map(str, some))
