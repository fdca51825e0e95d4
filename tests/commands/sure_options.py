"""Options that leave nothing to defaults, so that a plan of compact or retention may be applied."""

from __future__ import annotations

from tests.engine.disk import START_MS

COMPACT = ("--set", "cleanup.policy=compact")
CERTAIN = (
    *COMPACT,
    *("--set", "delete.retention.ms=1000", "--set", "min.compaction.lag.ms=0"),
    *("--set", "segment.bytes=1048576", "--set", "segment.index.bytes=10485760"),
    *("--set", "index.interval.bytes=4096"),
)

AT = str(START_MS + 29_003)
EXPIRED = ("--at", AT, "--set", "retention.ms=1")
SURE = (
    *EXPIRED,
    *("--set", "cleanup.policy=delete", "--set", "retention.bytes=-1"),
    *("--set", "remote.storage.enable=false"),
)
