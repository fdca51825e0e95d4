"""Whether the metadata on a disk ended before the broker's other files did.

A controller that is alive writes a record each half second, and every broker keeps a copy. Where the broker
went on writing for longer than a minute after the last one that it has, the metadata was cut off, damaged or
brought from elsewhere: settings may have been changed since, and nothing may be deleted because of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kafkatool.engine.cluster.view import ClusterView
from kafkatool.engine.directory.log_dir import FileEntry, LogDir
from kafkatool.engine.files.object_storage import is_remote
from kafkatool.engine.plan.journal import journals_in
from kafkatool.format import kinds

LATE_MS = 60_000
# What brokers write while they work. Indexes, snapshots and the other checkpoints are made anew by plans of
# ours, and the files that say whose a directory is by users; none of them tells how long a broker lived.
_TELLING = (
    *(kinds.LOG, kinds.RAFT_SNAPSHOT, kinds.HIGH_WATERMARKS),
    *(kinds.CLEAN_SHUTDOWN, kinds.QUORUM_STATE),
)


@dataclass(frozen=True, slots=True)
class MetadataEnd:
    """Metadata that ended too early, and the file that shows it."""

    last_ms: int
    """The time of its newest record."""
    file: str
    file_ms: int

    @property
    def reason(self) -> str:
        """Why nothing may be deleted because of it."""
        late = (self.file_ms - self.last_ms) // 1000
        return (
            f"the metadata on this disk ends {late} s before {self.file} was written (or copied, without its "
            "time), and they may have been changed since; say with --set, or --config FILE with a topic's "
            "settings, what the topic goes by"
        )


@dataclass(frozen=True, slots=True)
class OldMetadata:
    """Tells of topics whose settings may have been changed since the metadata ended."""

    end: MetadataEnd
    topics: list[str | None]


def early_end(cluster: ClusterView, log_dirs: Iterable[LogDir]) -> MetadataEnd | None:
    """How a broker's metadata ended before its directories did; None: it did not, or there is none."""
    if not cluster.is_known:
        return None
    newest = last_written(log_dirs)
    if newest is None or newest.modified_ms - cluster.last_ms <= LATE_MS:
        return None
    return MetadataEnd(cluster.last_ms, newest.path, newest.modified_ms)


def last_written(log_dirs: Iterable[LogDir]) -> FileEntry | None:
    """The file that a broker itself wrote last in its directories; None where there is none."""
    files = (entry for log_dir in log_dirs if not is_remote(log_dir.path) for entry in _of_broker(log_dir))
    return max(files, key=lambda entry: entry.modified_ns, default=None)


def _of_broker(log_dir: LogDir) -> Iterator[FileEntry]:
    """The files that tell when the broker last wrote: a log that a plan of ours has begun is empty."""
    ours = _written_by_us(log_dir)
    for entry in log_dir.all_files:
        if entry.kind in _TELLING and entry.size and os.path.realpath(entry.path) not in ours:
            yield entry


def _written_by_us(log_dir: LogDir) -> set[str]:
    """What plans of ours have changed, by the journals that lie here."""
    homes = [log_dir.path, *(one.path for one in log_dir.partitions)]
    return {path for journal in journals_in(homes) for path in journal.touched}
