"""Log directories to serve: large ones made quickly, and cleanly closed like a broker's."""

from __future__ import annotations

from pathlib import Path

from kafkatool.format.batch import HEADER_SIZE, NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.offset_index import OffsetEntry, write_entries
from kafkatool.format.state.clean_shutdown import write_clean_shutdown
from kafkatool.format.state.producer_snapshot import write_snapshot
from tests.logs import TIME

INTERVAL = 4096


def large_log_dir(directory: Path, topic: str, size: int, *, values: int = 100, batch: int = 16 << 10) -> int:
    """Write one partition with one segment of about `size` bytes; return the number of records.

    All batches are the same except for the offset, which no checksum covers.
    """
    count = max(1, (batch - HEADER_SIZE) // (values + 12))
    first = write_batch(
        [NewRecord(b"k%04d" % at, b"v" * values, TIME) for at in range(count)],
        base_offset=0,
        partition_leader_epoch=0,
    )
    partition = directory / f"{topic}-0"
    partition.mkdir(parents=True)
    entries: list[OffsetEntry] = []
    batches = max(1, size // len(first))
    with (partition / "00000000000000000000.log").open("wb") as log:
        for number in range(batches):
            log.write((number * count).to_bytes(8, "big") + first[8:])
            if number and (not entries or number * len(first) - entries[-1].position > INTERVAL):
                entries.append(OffsetEntry((number + 1) * count - 1, number * len(first)))
    (partition / "00000000000000000000.index").write_bytes(write_entries(entries))
    (partition / f"{batches * count:020d}.snapshot").write_bytes(write_snapshot([]))
    (directory / ".kafka_cleanshutdown").write_bytes(write_clean_shutdown(7))
    (directory / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=4L6g3nShT-eMCtK--X86sw\n")
    return batches * count
