"""The rows and sentences of `doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafkatool.commands.screen.values import human_duration, human_size
from kafkatool.engine.batches.damage import Severity
from kafkatool.engine.doctor.examination import Diagnosis
from kafkatool.engine.doctor.symptoms import Loss, StartVerdict
from kafkatool.engine.verify.finding import Finding

_MOST_SHOWN = 30


def diagnosis_row(found: Diagnosis) -> dict[str, object]:
    meta, recovery, chart = found.broker.meta, found.recovery, found.chart
    return {
        "kind": "diagnosis",
        "broker": found.broker.name,
        "log_dirs": [*found.broker.paths, *found.broker.missing],
        "cluster_id": None if meta is None else meta.cluster_id,
        "node_id": found.broker.node_id,
        "verdict": str(found.verdict),
        "message": verdict_text(found),
        "lost_offsets": chart.lost_offsets,
        "lost_at_least": chart.is_at_least,
        "maybe_lost_offsets": sum(loss.offsets for loss in chart.maybe_losses),
        "lost_partitions": sorted(loss.partition for loss in chart.losses),
        "offline_dirs": found.offline,
        "pid": found.pid or None,
        "partitions": found.partitions,
        "size": found.size,
        "sampled_size": found.sampled_size,
        "scan_size": None if recovery is None else recovery.size,
        "scan_partitions": None if recovery is None else recovery.partitions,
        "recovery_least_ms": None if recovery is None else recovery.least_ms,
        "recovery_most_ms": None if recovery is None else recovery.most_ms,
        "read_rate": None if found.read_rate is None else int(found.read_rate),
        **{severity.label: found.count(severity) for severity in reversed(Severity)},
        "worst": None if found.worst is None else found.worst.label,
        "notes": chart.notes,
        "failures": chart.failures,
    }


def verdict_text(found: Diagnosis) -> str:
    """The answer in a line."""
    chart = found.chart
    at_least = "at least " if chart.is_at_least else ""
    losses, maybe = chart.losses, _maybe(chart.maybe_losses)
    lost = f"{at_least}{_count(chart.lost_offsets, 'offset')} in {_count(len(losses), 'partition')}"
    match found.verdict:
        case StartVerdict.NO_START:
            return "will not start"
        case StartVerdict.SERVES_NOTHING:
            return "starts but serves nothing"
        case StartVerdict.PARTLY:
            also = f", and loses {lost}" if losses else ""
            return f"starts without {', '.join(found.offline)}{also}{maybe}"
        case StartVerdict.LOSES:
            return f"starts and loses {lost}{maybe}"
        case StartVerdict.RUNNING:
            return f"a broker is running on it{f' (process {found.pid})' if found.pid else ''}"
        case StartVerdict.UNKNOWN:
            if chart.failures:
                return "cannot tell: not all of it could be read"
            return f"nothing stops it; {', '.join(chart.unscanned)} not scanned: what is lost is not known"
        case StartVerdict.STARTS:
            return f"starts, and loses nothing that is on its disks{maybe}"


def _maybe(losses: Sequence[Loss]) -> str:
    """What is not for this disk to say."""
    if not losses:
        return ""
    offsets = _count(sum(loss.offsets for loss in losses), "offset")
    return f"; up to {offsets} in {_count(len(losses), 'partition')} are for other replicas to decide"


def finding_lines(findings: Sequence[Finding], *, every: bool) -> Iterator[tuple[str, str]]:
    """Two lines a finding, each with what stands before it: its severity and what it is, then what to do.

    Notes only where every finding is wanted.
    """
    wanted = [one for one in findings if every or one.damage.severity is not Severity.NOTE]
    more = 0 if every else max(0, len(wanted) - _MOST_SHOWN)
    for finding in wanted[: len(wanted) - more]:
        yield finding.damage.severity.label, f"{finding.file}: {finding.damage.message}"
        if finding.fix is not None:
            yield "", finding.fix
    if more:
        yield "", f"… and {more} more, -v shows them"


def summary_text(found: Diagnosis, *, raw: bool, every: bool) -> str:
    """What was looked at, what a start reads, and how much was found."""

    def size(number: int) -> str:
        return str(number) if raw else human_size(number)

    text = f"{_count(len(found.broker.log_dirs), 'directory', 'directories')}, "
    text += f"{_count(found.partitions, 'partition')}, {size(found.size)} of logs, "
    text += f"{size(found.sampled_size)} of them sampled"
    if found.recovery is not None:
        text += f"; a start scans {size(found.recovery.size)}{_duration(found)}"
    counts = [f"{found.count(one)} {one.label}" for one in reversed(Severity) if found.count(one)]
    text += f"; findings: {', '.join(counts)}" if counts else "; no findings"
    if found.count(Severity.NOTE) and not every:
        text += " (-v shows notes)"
    return text


def _duration(found: Diagnosis) -> str:
    assert found.recovery is not None
    least, most = found.recovery.least_ms, found.recovery.most_ms
    if most is None:
        return f" in {human_duration(least)} or more" if least >= 1000 else ""
    if most < 1000:
        return " in less than a second"
    return f" in {human_duration(least // 1000 * 1000 or 1000)} to {human_duration(most // 1000 * 1000)}"


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
