"""`report` for scripts: rows of the commands that it stands for, and one of its own at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kafkatool import __version__
from kafkatool.commands.report.cache import CacheShown
from kafkatool.commands.report.words import verdict
from kafkatool.commands.rows.findings import finding_row
from kafkatool.commands.rows.retention import departure_row, forecast_row
from kafkatool.commands.rows.settings import setting_row
from kafkatool.commands.rows.stats import stats_row, time_rows
from kafkatool.commands.screen.values import Row
from kafkatool.engine.batches.damage import Severity
from kafkatool.engine.directory.log_dir import LogDir
from kafkatool.engine.jobs.worker_pool import Workers
from kafkatool.engine.report.gathering import Gathering
from kafkatool.engine.report.records_around import Around, ShownRecord


def report_rows(
    run: Gathering, pool: Workers, advance: Callable[[int], None], *, with_payloads: bool
) -> Iterator[Row]:
    """Everything, findings as they are found."""
    cache = CacheShown()
    for mapped, tail in run.cache_maps():
        yield cache.add(mapped, tail)
    yield from map(finding_row, run.findings(pool, advance))
    run.look_ahead(pool)
    if with_payloads:
        for _trouble, places in run.payloads():
            for around in places:
                yield from _around_rows(around)
    yield from _topic_rows(run)
    yield stats_row(run.total)
    yield from time_rows(run.total, run.total.stats.timeline)
    for topic, judged in {one.partition.topic: one for one in run.judged if one.is_asked}.items():
        yield from (setting_row(topic, setting) for setting in judged.decisive)
    if run.forecast is not None:
        yield from map(departure_row, run.forecast.departures)
        yield from map(forecast_row, run.forecast.points)
    yield incident_row(run)


def _topic_rows(run: Gathering) -> Iterator[Row]:
    for name, one in sorted(run.topics.items()):
        saved = run.compaction.get(name)
        yield {
            "kind": "incident_topic",
            "topic": name,
            "partitions": one.partitions,
            "segments": one.segments,
            "size": one.size,
            "batches": one.batches,
            "records": one.records,
            "findings": one.findings,
            "retention_delete_segments": one.expired_segments,
            "retention_delete_bytes": one.freed,
            "compaction_read_bytes": None if saved is None else saved.bytes_read,
            "compaction_removed_bytes": None if saved is None else saved.bytes_removed,
            "compaction_removed_records": None if saved is None else saved.records_removed,
            "compaction_errors": None if saved is None else saved.errors,
        }


def _around_rows(around: Around) -> Iterator[Row]:
    finding = around.finding
    for side, records in (("before", around.before), ("behind", around.behind)):
        for one in records:
            yield {
                "kind": "incident_record",
                "topic": finding.topic,
                "partition": finding.partition,
                "file": finding.file,
                "finding_position": finding.damage.position,
                "side": side,
                **_record(one),
            }


def _record(one: ShownRecord) -> dict[str, object]:
    return {
        "offset": one.offset,
        "timestamp_ms": one.timestamp_ms,
        "key": one.key,
        "value": one.value,
        "key_size": one.key_size,
        "value_size": one.value_size,
    }


def incident_row(run: Gathering) -> Row:
    said, summary = verdict(run), run.summary
    worst = summary.worst
    return {
        "kind": "incident",
        "version": __version__,
        "now_ms": run.now_ms,
        "directories": [_directory(one) for one in run.all_log_dirs],
        "state": said.kind,
        "sentence": said.sentence,
        "advice": said.advice,
        "command": said.command,
        "partitions": summary.partitions,
        "segments": summary.segments,
        "size": summary.size,
        "total_size": summary.total_size,
        "batches": summary.batches,
        "records": summary.records,
        "sample": summary.sample,
        "damaged_partitions": sum(one.severity is not Severity.NOTE for one in run.troubles),
        **{severity.label: summary.findings[severity] for severity in reversed(Severity)},
        "worst": None if worst is None else worst.label,
        "bytes_a_day": None if run.forecast is None else run.forecast.bytes_a_day,
        "unreadable_blocks": summary.unreadable_blocks,
        "failures": summary.failures,
    }


def _directory(one: LogDir) -> dict[str, object]:
    meta = one.meta
    return {
        "path": one.path,
        "cluster_id": None if meta is None else meta.cluster_id,
        "node_id": None if meta is None else meta.node_id,
        "clean_shutdown": one.was_shut_down_cleanly,
    }
