"""The rows and sentences of `doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafkatool.commands.rows.row_table import RowTable
from kafkatool.commands.screen.values import human_duration, human_size
from kafkatool.engine.batches.damage import Severity
from kafkatool.engine.batches.row_fields import (
    FAILURES,
    SEVERITIES,
    flag,
    inside,
    int64,
    size,
    text,
    texts,
    time_ms,
    word,
)
from kafkatool.engine.doctor.examination import Diagnosis
from kafkatool.engine.doctor.symptoms import Loss, StartVerdict
from kafkatool.engine.verify.finding import Finding

_MOST_SHOWN = 30


DIAGNOSES = RowTable(
    "diagnosis",
    "doctor",
    "What a start comes to, for one broker. Comes behind its findings.",
    *inside(
        "broker",
        text("broker", "the configuration that was named, or the log directories", "name"),
        texts(
            "log_dirs",
            "all log directories of the broker, those that are missing too",
            lambda broker: [*broker.paths, *broker.missing],
        ),
    ),
    *inside("broker.meta", text("cluster_id", "whose they are; null if unknown")),
    int64("node_id", "likewise, by the configuration if that was named", "broker.node_id"),
    word(
        "verdict",
        "starts, loses (starts, without some offsets), partly (starts without a directory), "
        "serves_nothing (starts, and leads hardly any partition), no_start, running (a broker is), "
        "unknown (not all could be read, or --quick left out what decides)",
    ),
    text("message", "the same in a sentence", lambda found: verdict_text(found)),
    *inside(
        "chart",
        int64("lost_offsets", "how many offsets would not be served any more"),
        flag(
            "lost_at_least",
            "whether there may be more: what is cut does not end with a good batch",
            "is_at_least",
        ),
        int64(
            "maybe_lost_offsets",
            "how many more may go, as other replicas decide: above the checkpointed "
            "high watermark, or of partitions that are missing here",
            lambda chart: sum(loss.offsets for loss in chart.maybe_losses),
        ),
        texts(
            "lost_partitions",
            "directories of the partitions that lose any",
            lambda chart: sorted(loss.partition for loss in chart.losses),
        ),
    ),
    texts("offline_dirs", "log directories that the broker would leave out", "offline"),
    int64(
        "pid",
        "the process that is running on them; null if none is, or it cannot be named",
        lambda found: found.pid or None,
    ),
    int64("partitions", "number of partition directories"),
    size("size", "bytes of all logs"),
    size("sampled_size", "bytes of logs that were read besides what a start reads"),
    *inside(
        "recovery",
        size("scan_size", "bytes that a start scans because it does not trust them; null if none", "size"),
        int64("scan_partitions", "number of partitions that have any of them", "partitions"),
        time_ms("recovery_least_ms", "how long that takes at least; null if nothing is scanned", "least_ms"),
        time_ms("recovery_most_ms", "how long it may take; null if the read rate is not known", "most_ms"),
    ),
    *inside(
        "read_rate",
        size(
            "read_rate",
            "bytes a second that the volume gave; null if not known, as where all is in memory",
            int,
        ),
    ),
    *SEVERITIES,
    texts("notes", "what limits the answer, in words", "chart.notes"),
    FAILURES._replace(get="chart.failures"),
)


def diagnosis_row(found: Diagnosis) -> dict[str, object]:
    return DIAGNOSES.row(found, **{severity.label: found.count(severity) for severity in Severity})


def verdict_text(found: Diagnosis) -> str:
    """Return the verdict in one line."""
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
    """Say which losses depend on other replicas."""
    if not losses:
        return ""
    offsets = _count(sum(loss.offsets for loss in losses), "offset")
    return f"; up to {offsets} in {_count(len(losses), 'partition')} are for other replicas to decide"


def finding_lines(findings: Sequence[Finding], *, every: bool) -> Iterator[tuple[str, str]]:
    """Yield two lines per finding, each with its label: severity and finding, then what to do.

    Notes are included only with `every`.
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
    """Say what was examined, what a start reads, and how much was found."""

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
