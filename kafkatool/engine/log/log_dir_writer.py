"""A log directory open for writing, left as a broker's clean shutdown leaves it.

    with open_log_dir(Disk(), path, now_ms=now) as log_dir:
        log = log_dir.open_log("orders", 0, config, topic_id=topic_id, now_ms=now)
        log.append_as_leader(batch, leader_epoch=0, now_ms=now)

    opening     takes the lock, and removes the clean shutdown marker before anything else is changed
    meanwhile   `checkpoint` records what needs no recovery any more; after a crash the rest is scanned
    closing     flushes and closes every log, writes the checkpoints, and the marker last

An error leaves what a crash leaves: no checkpoint, no marker.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kafkatool.engine.cluster.topic_config import TopicConfig
from kafkatool.engine.directory.log_dir import LogDir, PartitionState, read_log_dir
from kafkatool.engine.files.disk import Files
from kafkatool.engine.files.lock import CLEAN_MARKER, hold_lock, refuse_if_in_use
from kafkatool.engine.files.whole_files import replace_file
from kafkatool.engine.log.loading import LeftLog, open_log
from kafkatool.engine.log.partition_log import Log
from kafkatool.engine.plan.steps import drop_clean_marker
from kafkatool.errors import KafkatoolError, Refused, UsageError
from kafkatool.format import kinds
from kafkatool.format.kinds import FileKind
from kafkatool.format.names import TopicPartition, topic_problem
from kafkatool.format.state.checkpoint import PartitionOffset, write_offset_checkpoint
from kafkatool.format.state.clean_shutdown import write_clean_shutdown
from kafkatool.format.state.partition_metadata import (
    PartitionMetadata,
    read_partition_metadata,
    write_partition_metadata,
)

UNKNOWN_EPOCH = -1
# A broker loads these; it writes no marker into a directory of which it did not load them all.
_LOADED = (PartitionState.ACTIVE, PartitionState.FUTURE, PartitionState.STRAY)

Offsets = dict[TopicPartition, int]


@contextmanager
def open_log_dir(
    files: Files, path: str, *, now_ms: int, offline: bool = False, broker_epoch: int = UNKNOWN_EPOCH
) -> Iterator[LogDirWriter]:
    """Open a log directory exclusively, and leave it cleanly shut down.

    Raises Refused if a broker uses it, and KafkatoolError for checkpoints that cannot be read. With
    `broker_epoch` the controller would trust the replicas in it to be those of that broker's last shutdown.
    """
    refuse_if_in_use(path, offline=offline, now_ms=now_ms)
    with hold_lock(path, files):
        left = read_log_dir(path)
        for problem in left.problems:
            raise KafkatoolError(f"{problem.path}: {problem.message}")
        drop_clean_marker(path, files)
        writer = LogDirWriter(files, left)
        try:
            yield writer
            writer.close(broker_epoch)
        except BaseException:
            writer.abandon()
            raise


class LogDirWriter:
    """The open logs of a directory; see `open_log_dir`."""

    def __init__(self, files: Files, left: LogDir) -> None:
        self.path = left.path
        self.logs: dict[TopicPartition, Log] = {}
        self._files = files
        self._was_clean = left.was_shut_down_cleanly
        self._recovery_points: Offsets = dict(left.recovery_points)
        self._log_starts: Offsets = dict(left.log_starts)
        self._high_watermarks: Offsets = dict(left.high_watermarks)
        self._to_be_loaded = {part.directory for part in left.partitions if part.state in _LOADED}

    def open_log(
        self, topic: str, partition: int, config: TopicConfig, *, now_ms: int, topic_id: str | None = None
    ) -> Log:
        """Open a partition, creating it if it does not exist; raise Refused if it is another topic's.

        A new one should get the topic's id: a KRaft broker does not start on a partition without one.
        """
        key = (topic, partition)
        if key in self.logs:
            raise UsageError(f"{topic}-{partition} is open already")
        if problem := topic_problem(topic):
            raise UsageError(f"{topic}: {problem}")
        directory = os.path.join(self.path, f"{topic}-{partition}")
        if os.path.islink(directory):
            raise Refused(f"{directory}: is a link into a directory whose lock is not held")
        if not os.path.isdir(directory):
            self._files.make_directory(directory)
        self._keep_topic_id(directory, topic_id)
        left = LeftLog(self._recovery_points.get(key, 0), self._log_starts.get(key, 0), self._was_clean)
        log = self.logs[key] = open_log(self._files, directory, config, now_ms=now_ms, left=left)
        if key in self._high_watermarks:
            log.high_watermark = self._high_watermarks[key]
        self._to_be_loaded.discard(os.path.basename(directory))
        return log

    def _keep_topic_id(self, directory: str, topic_id: str | None) -> None:
        """Write the topic id before any data, so that the partition can always be identified."""
        if topic_id is None:
            return
        path = os.path.join(directory, kinds.PARTITION_METADATA.name)
        if not os.path.exists(path):
            replace_file(self._files, path, write_partition_metadata(PartitionMetadata(0, topic_id)))
            return
        with open(path, "rb") as file:
            found = read_partition_metadata(file.read()).topic_id
        if found != topic_id:
            raise Refused(f"{directory} is of the topic with the id {found}, not {topic_id}")

    def truncate_to(self, topic: str, partition: int, offset: int, now_ms: int) -> None:
        """Truncate a log, and checkpoint at once that what is appended there next is not flushed yet."""
        self.logs[topic, partition].truncate_to(offset, now_ms)
        self.checkpoint()

    def checkpoint(self) -> None:
        """Write the recovery points, log start offsets and high watermarks of the open logs."""
        for key, log in self.logs.items():
            self._recovery_points[key] = log.recovery_point
            self._high_watermarks[key] = log.high_watermark
            self._log_starts.pop(key, None)
            if log.log_start_offset > log.segments[0].base_offset:
                self._log_starts[key] = log.log_start_offset
        self._write(kinds.RECOVERY_POINTS, self._recovery_points)
        self._write(kinds.LOG_STARTS, self._log_starts)
        self._write(kinds.HIGH_WATERMARKS, self._high_watermarks)

    def _write(self, kind: FileKind, offsets: Mapping[TopicPartition, int]) -> None:
        entries = (PartitionOffset(*key, offset) for key, offset in sorted(offsets.items()))
        replace_file(self._files, os.path.join(self.path, kind.name), write_offset_checkpoint(entries))

    def close(self, broker_epoch: int = UNKNOWN_EPOCH) -> None:
        """Close every log; write the marker if the directory was clean before, or all were opened here."""
        for log in self.logs.values():
            log.close()
        self.checkpoint()
        if self._was_clean or not self._to_be_loaded:
            marker = os.path.join(self.path, CLEAN_MARKER)
            replace_file(self._files, marker, write_clean_shutdown(broker_epoch))

    def abandon(self) -> None:
        """Close everything as it is, as a crash would leave it."""
        for log in self.logs.values():
            log.abandon()
