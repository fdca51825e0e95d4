"""`report` for scripts: rows of other commands, and one row of its own at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kafkatool import __version__
from kafkatool.commands.report.cache import CacheShown
from kafkatool.commands.report.words import verdict
from kafkatool.commands.rows.findings import counts_of, finding_row
from kafkatool.commands.rows.incident import INCIDENT_RECORDS, INCIDENT_TOPICS, INCIDENTS, RECORD, SAVED
from kafkatool.commands.rows.retention import departure_row, forecast_row
from kafkatool.commands.rows.settings import setting_row
from kafkatool.commands.rows.stats import stats_row, time_rows
from kafkatool.commands.screen.values import Row
from kafkatool.engine.batches.damage import Severity
from kafkatool.engine.batches.row_fields import values
from kafkatool.engine.jobs.worker_pool import Workers
from kafkatool.engine.report.gathering import Gathering
from kafkatool.engine.report.records_around import Around


def report_rows(
    run: Gathering, pool: Workers, advance: Callable[[int], None], *, with_payloads: bool
) -> Iterator[Row]:
    """Yield all rows, findings as they are found."""
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
        yield INCIDENT_TOPICS.row(one, topic=name, **values(SAVED, run.compaction.get(name)))


def _around_rows(around: Around) -> Iterator[Row]:
    for side, records in (("before", around.before), ("behind", around.behind)):
        for one in records:
            yield INCIDENT_RECORDS.row(around.finding, side=side, **values(RECORD, one))


def incident_row(run: Gathering) -> Row:
    said, summary = verdict(run), run.summary
    return INCIDENTS.row(
        run,
        version=__version__,
        state=said.kind,
        sentence=said.sentence,
        advice=said.advice,
        command=said.command,
        damaged_partitions=sum(one.severity is not Severity.NOTE for one in run.troubles),
        **counts_of(summary.findings),
    )
