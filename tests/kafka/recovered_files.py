"""The files of a partition, so that a broker's and ours can be compared."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kafkatool.format import offset_index, time_index
from kafkatool.format.batch import read_header
from kafkatool.format.names import base_offset
from kafkatool.format.state.checkpoint import read_leader_epochs
from kafkatool.format.state.producer_snapshot import read_snapshot


class Directory(NamedTuple):
    """A partition as somebody left it."""

    facts: dict[str, object]
    """By file: its content, indexes as entries, snapshots as sets; epochs without data are not in it."""
    padding: dict[str, bytes]
    """By index: what is behind its entries."""
    marked: set[str]
    """Files that have .deleted behind their name."""
    kept: set[str]
    """Files that kafkatool kept."""
    temporary: set[str]


def read_directory(path: Path) -> Directory:
    found = Directory({}, {}, set(), set(), set())
    for file in sorted(path.iterdir()):
        if ".kafkatool-" in file.name:
            found.kept.add(file.name.partition(".kafkatool-")[0])
        elif file.suffix == ".deleted":
            found.marked.add(file.stem)
        elif file.suffix == ".tmp":
            found.temporary.add(file.name)
        elif file.name != "partition.metadata":
            found.facts[file.name] = read_facts(file, found.padding)
    epochs = found.facts["leader-epoch-checkpoint"]
    assert isinstance(epochs, list)
    end = log_end(path)
    found.facts["leader-epoch-checkpoint"] = [entry for entry in epochs if entry.start_offset < end]
    return found


def read_facts(file: Path, padding: dict[str, bytes]) -> object:
    data = file.read_bytes()
    if file.suffix == ".index":
        padding[file.name] = data[offset_index.entries_end(data) :]
        return list(offset_index.read_entries(data[: offset_index.entries_end(data)]))
    if file.suffix == ".timeindex":
        padding[file.name] = data[time_index.entries_end(data) :]
        return list(time_index.read_entries(data[: time_index.entries_end(data)]))
    if file.suffix == ".snapshot":
        return sorted(read_snapshot(data))
    if file.name == "leader-epoch-checkpoint":
        return read_leader_epochs(data)
    return data


def log_end(path: Path) -> int:
    last = max(path.glob("*.log"))
    end, data, position = base_offset(last.name) or 0, last.read_bytes(), 0
    while position < len(data):
        header = read_header(data, position)
        end, position = header.last_offset + 1, position + header.size
    return end
