"""Check whether the metadata on a disk ends before the broker's other files do.

A live controller writes a record every half second, and every broker keeps a copy. If the broker wrote files
more than a minute after its last metadata record, the metadata was truncated, damaged or copied from
elsewhere: settings may have changed since, and nothing may be deleted because of them.
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
# Files that brokers write while they run. Our plans may rewrite indexes, snapshots and the other checkpoints,
# and users meta.properties; so these do not show how long a broker lived.
_TELLING = (
    *(kinds.LOG, kinds.RAFT_SNAPSHOT, kinds.HIGH_WATERMARKS),
    *(kinds.CLEAN_SHUTDOWN, kinds.QUORUM_STATE),
)


@dataclass(frozen=True, slots=True)
class MetadataEnd:
    """Metadata that ends too early, and the file that shows it."""

    last_ms: int
    """Timestamp of its newest record."""
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
    """Return how a broker's metadata ends before its directories do; None if it does not."""
    if not cluster.is_known:
        return None
    newest = last_written(log_dirs)
    if newest is None or newest.modified_ms - cluster.last_ms <= LATE_MS:
        return None
    return MetadataEnd(cluster.last_ms, newest.path, newest.modified_ms)


def last_written(log_dirs: Iterable[LogDir]) -> FileEntry | None:
    """Return the file that the broker itself wrote last in its directories, if any."""
    files = (entry for log_dir in log_dirs if not is_remote(log_dir.path) for entry in _of_broker(log_dir))
    return max(files, key=lambda entry: entry.modified_ns, default=None)


def _of_broker(log_dir: LogDir) -> Iterator[FileEntry]:
    """Yield files that show when the broker last wrote; an empty log may come from a plan of ours."""
    ours = _written_by_us(log_dir)
    for entry in log_dir.all_files:
        if entry.kind in _TELLING and entry.size and os.path.realpath(entry.path) not in ours:
            yield entry


def _written_by_us(log_dir: LogDir) -> set[str]:
    """Return the files that our plans changed, by the journals found here."""
    homes = [log_dir.path, *(one.path for one in log_dir.partitions)]
    return {path for journal in journals_in(homes) for path in journal.touched}
