"""Write logs with our own writers, and damage them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hypothesis import strategies as st

from kafkatool.engine.batches.damage import Damage
from kafkatool.engine.batches.scan import Batch, scan
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.format.batch import Codec, NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.offset_index import entries_end as offset_entries_end
from kafkatool.format.time_index import entries_end as time_entries_end

TIME = 1_700_000_000_000
LOG = "00000000000000000000.log"
GUEST = Guest(cache_keep=True)
"""Leaves what it reads in the page cache."""

keys = st.none() | st.binary(max_size=20)
headers = st.lists(st.tuples(st.binary(max_size=8), keys), max_size=3)
records = st.builds(NewRecord, keys, keys, st.integers(-1, 1 << 62), headers)


def batches(count: int, *, per_batch: int = 3, codec: Codec = Codec.NONE) -> list[bytes]:
    """Return batches at consecutive offsets, a second apart, with keys `k0` to `k4` in turn."""
    return [
        write_batch(
            [
                NewRecord(b"k%d" % (offset % 5), b"value %d" % offset, TIME + 1000 * offset)
                for offset in range(at * per_batch, (at + 1) * per_batch)
            ],
            base_offset=at * per_batch,
            codec=codec,
            partition_leader_epoch=0,
        )
        for at in range(count)
    ]


def write_log(directory: Path, data: bytes, name: str = LOG) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_bytes(data)
    return path


def walk(path: Path, **options: bool) -> tuple[list[Batch], list[Damage]]:
    """Return what a scan of the whole file finds; payloads are copied, so that they outlive the walk."""
    found: list[Batch] = []
    damage: list[Damage] = []
    with open_source(path, GUEST) as source:
        for item in scan(source, **options):
            if isinstance(item, Batch):
                found.append(item)
            else:
                damage.append(item)
    return found, damage


def offsets(found: Iterable[Batch]) -> list[int]:
    return [batch.header.last_offset for batch in found]


def content(directory: Path) -> dict[str, bytes]:
    """Return the files that a log consists of, without preallocated tails."""
    found = {}
    for path in directory.iterdir():
        data = path.read_bytes()
        if path.suffix == ".index":
            data = data[: offset_entries_end(data)]
        elif path.suffix == ".timeindex":
            data = data[: time_entries_end(data)]
        elif path.suffix == ".log":
            data = data[: sum(batch.header.size for batch in walk(path)[0])]
        if path.name != "partition.metadata":
            found[path.name] = data
    return found
