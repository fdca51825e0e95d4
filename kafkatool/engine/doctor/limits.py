"""Check the limits of a broker's host: open files and memory maps.

open files      one per .log and .txnindex, besides the broker's own; all are opened at start-up
memory maps     two per segment whose indexes are in use: the newest at once, others over time
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from kafkatool.engine.advice.table import Advice
from kafkatool.engine.batches.damage import FindingClass, Severity
from kafkatool.engine.broker.checkpoint_effects import Effect
from kafkatool.engine.directory.log_dir import LogDir, SegmentState
from kafkatool.engine.doctor.loading import Scans
from kafkatool.engine.doctor.symptoms import Symptom, host_finding
from kafkatool.format import kinds

OWN_FILES = 250
"""Files that a broker opens before any log: jars, sockets, pipes."""
OWN_MAPS = 500
_A_LITTLE = 1.2
"""A limit is near if it is less than this multiple of what is needed."""


@dataclass(frozen=True, slots=True)
class HostLimits:
    """Limits of the broker's process; None where unknown."""

    nofile: int | None
    is_nofile_certain: bool
    """Whether it is the broker's own limit, not that of this shell."""
    max_map_count: int | None


def read_limits(
    pid: int | None, nofile: int | None, max_map_count: int | None, *, is_elsewhere: bool
) -> HostLimits:
    """Return the given limits, else the running broker's, else this shell's; nothing about another host."""
    if max_map_count is None and not is_elsewhere:
        with suppress(OSError, ValueError), open("/proc/sys/vm/max_map_count", encoding="ascii") as file:
            max_map_count = int(file.read())
    if nofile is not None:
        return HostLimits(nofile, True, max_map_count)
    if is_elsewhere:
        return HostLimits(None, False, max_map_count)
    of_broker = _nofile_of(pid) if pid else None
    if of_broker is not None:
        return HostLimits(of_broker, True, max_map_count)
    import resource

    mine = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return HostLimits(None if mine == resource.RLIM_INFINITY else mine, False, max_map_count)


def _nofile_of(pid: int) -> int | None:
    """Return the hard limit: a JVM raises its soft limit to that."""
    with suppress(OSError), open(f"/proc/{pid}/limits", encoding="ascii") as file:
        found = re.search(r"^Max open files +\S+ +(\d+)", file.read(), re.MULTILINE)
        return int(found[1]) if found else None
    return None


def limit_symptoms(
    log_dirs: Sequence[LogDir], limits: HostLimits, scans: Iterable[Scans]
) -> Iterator[Symptom]:
    """Yield limits that are too low, or nearly."""
    segments = [s for one in log_dirs for p in one.partitions for s in p.segments if s.log is not None]
    files = OWN_FILES + len(segments) + sum(s.file(kinds.TXN_INDEX) is not None for s in segments)
    if limits.nofile is not None and files * _A_LITTLE > limits.nofile:
        yield _of_files(log_dirs[0].path, files, limits)
    newest = sum(1 for s in segments if s.state is SegmentState.ACTIVE)
    scanned = sum(len(one.segments) for one in scans)
    now, later = OWN_MAPS + 2 * max(newest, scanned), OWN_MAPS + 2 * len(segments)
    if limits.max_map_count is not None and later * _A_LITTLE > limits.max_map_count:
        yield _of_maps(log_dirs[0].path, now, later, limits.max_map_count)


def _of_files(path: str, files: int, limits: HostLimits) -> Symptom:
    assert limits.nofile is not None
    is_short = files > limits.nofile
    whose = "the limit is" if limits.is_nofile_certain else "the limit of this shell is"
    message = f"about {files} open files are needed, {whose} {limits.nofile}"
    severity, effect = Severity.DEGRADED, Effect.NOTE
    if is_short and limits.is_nofile_certain:
        message += ": a broker does not start"
        severity, effect = Severity.NO_START, Effect.REFUSE
    advice = Advice.RAISE_NOFILE(number=_round(2 * files))
    finding = host_finding(
        path, FindingClass.HOST_LIMIT, severity, message, advice, f"{files} or more", limits.nofile
    )
    return Symptom(finding, effect)


def _of_maps(path: str, now: int, later: int, limit: int) -> Symptom:
    severity, effect = Severity.DEGRADED, Effect.NOTE
    message = f"indexes take up to {later} memory maps, vm.max_map_count is {limit}"
    if now > limit:
        severity, effect = Severity.NO_START, Effect.REFUSE
        message += f", and a start needs {now}: a broker ends with OutOfMemoryError: Map failed"
    elif later > limit:
        message += ": a broker starts, and ends with OutOfMemoryError: Map failed when old segments are read"
    advice = Advice.RAISE_MAPS(number=_round(2 * later))
    finding = host_finding(
        path, FindingClass.HOST_LIMIT, severity, message, advice, f"{later} or more", limit
    )
    return Symptom(finding, effect)


def _round(number: int) -> int:
    """Round up to a power of two: a limit that is set once should last."""
    return max(1 << 16, 1 << (number - 1).bit_length())
