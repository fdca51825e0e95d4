"""Discard a log as a whole: an empty one takes its place, at another offset."""

from __future__ import annotations

from kafkatool.engine.recover.producers import LoadedProducers
from kafkatool.engine.recover.result import PartitionLoading
from kafkatool.format.names import segment_file


def start_anew_at(log: PartitionLoading, offset: int, why: str, what: str) -> None:
    """Delete all segments, epochs and producers, and start with an empty segment; events are named `what`."""
    for base in log.bases:
        name = segment_file(base, ".log")
        # Removing an empty segment loses nothing.
        log.say(what if log.dir.size(name) else "leftover", base, f"{name}: {why}", first_offset=base)
        log.remove_segment(base, why)
    log.epochs.clear()
    LoadedProducers(log.dir, log.how.now_ms).drop_all(why)
    make_empty_segment(log, offset)


def make_empty_segment(log: PartitionLoading, offset: int) -> None:
    for extension in (".log", ".index", ".timeindex"):
        log.dir.write(segment_file(offset, extension), b"", "an empty segment")
    log.bases = [offset]
