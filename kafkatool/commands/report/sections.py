"""The sections of the page of `report` other than damage: sizes, times, forecasts, settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkatool.commands.report.cache import CacheShown
from kafkatool.commands.report.pictures import (
    SEGMENT_WORDS,
    bar,
    forecast_chart,
    histogram,
    row,
    segment_line,
)
from kafkatool.commands.report.words import counted
from kafkatool.commands.rows.cache_picture import cache_legend, cache_strip
from kafkatool.commands.rows.settings import settings_sentence
from kafkatool.commands.rows.stats import share_text
from kafkatool.commands.screen.html_tables import table
from kafkatool.commands.screen.page import Markup, join, legend_entry, tag
from kafkatool.commands.screen.time_axis import axis_of
from kafkatool.commands.screen.values import human_duration, human_size, iso_time
from kafkatool.engine.report.gathering import Gathering, TopicNumbers
from kafkatool.engine.retention.logs import JudgedLog
from kafkatool.format.batch import CODEC_LABELS

MOST_BULLETS = 50
MOST_TOPICS = 40
MOST_LINES = 24
MOST_SETTINGS = 30
MOST_DEPARTURES = 15
_TOPIC_HEADS = (
    *(("Topic", "name"), ("", "bar wide"), ("Size", "n"), ("Share", "n wide")),
    *(("Partitions", "n wide"), ("Segments", "n wide"), ("Records", "n"), ("Findings", "n")),
    ("Retention frees", "n wide"),
)
_COMPACTION_HEADS = (
    *(("Topic", "name"), ("", "bar wide"), ("Removes", "n"), ("Share", "n"), ("Of", "n")),
    *(("Records", "n wide"), ("Partitions", "n wide")),
)
_CODEC_HEADS = (
    *(("Codec", "one"), ("", "bar"), ("Size", "n"), ("Share", "n")),
    *(("Batches", "n wide"), ("Records", "n wide"), ("Records a batch", "n wide")),
)
_DEPARTURE_HEADS = (("Partition", "name"), ("Segment", "n"), ("Size", "n"), ("By", "one"), ("Goes", "one"))


# --- sizes and times ------------------------------------------------------------------------------------


def topics_section(run: Gathering) -> Iterator[Markup]:
    largest = sorted(run.topics.items(), key=lambda one: (-one[1].size, one[0]))
    total = max(1, sum(one.size for one in run.topics.values()))
    shown = [_topic_cells(name, one, total) for name, one in largest[:MOST_TOPICS]]
    rest = [one for _name, one in largest[MOST_TOPICS:]]
    if rest:
        shown.append(_topic_cells(f"{counted(len(rest), 'other topic')}", _sum(rest), total))
    yield table(_TOPIC_HEADS, shown)


def _topic_cells(name: str, one: TopicNumbers, total: int) -> list[object]:
    share = one.size / total
    return [
        name,
        bar([("value", share)], f"{share_text(share)} of all bytes"),
        human_size(one.size),
        share_text(share),
        f"{one.partitions:,}",
        f"{one.segments:,}",
        f"{one.records:,}",
        f"{one.findings:,}" if one.findings else "-",
        human_size(one.freed) if one.freed else "-",
    ]


def _sum(topics: Iterable[TopicNumbers]) -> TopicNumbers:
    total = TopicNumbers()
    for one in topics:
        for name in ("partitions", "segments", "size", "batches", "records", "findings", "freed"):
            setattr(total, name, getattr(total, name) + getattr(one, name))
    return total


def time_section(run: Gathering) -> Iterator[Markup]:
    logs = sorted((one for one in run.judged if one.facts.segments), key=lambda one: -one.facts.size)
    hurt = {one.name: one.map.hurt for one in run.troubles if one.map is not None}
    shown = logs[:MOST_LINES]
    shown += [one for one in logs[MOST_LINES:] if one.partition.directory in hurt][:MOST_LINES]
    times = [
        time
        for one in shown
        for segment in one.facts.segments
        for time in (segment.first_ms, segment.largest_ms)
    ]
    axis = axis_of(times, run.now_ms)
    if axis is None:
        return
    yield tag("p", join(legend_entry(kind, word) for kind, word in SEGMENT_WORDS.items()), class_="legend")
    for one in shown:
        line = segment_line(one.outcome.verdicts, hurt.get(one.partition.directory, set()), axis)
        yield row(one.partition.directory, line, human_size(one.facts.size))
    yield row("", axis.labels(), "")
    span = f"{iso_time(axis.first_ms)} to {iso_time(axis.last_ms)}"
    if any(time is not None and time > axis.last_ms for time in times):
        span += "; what has a time to come stands at the right end"
    left = (
        f"; {counted(len(logs) - len(shown), 'smaller partition')} left out" if len(logs) > len(shown) else ""
    )
    yield tag("p", f"Each segment from its first time to its greatest, {span}{left}.", class_="lead")


def hours_section(run: Gathering) -> Iterator[Markup]:
    timeline = run.total.stats.timeline
    if not len(timeline.stretches):
        return
    chart, drawn, outside = histogram(timeline, run.now_ms)
    times = run.total.stats.times
    words = f"Bytes of every {human_duration(drawn.width_ms)}, by the greatest time of each batch"
    words += f": {iso_time(times.least)} to {iso_time(times.greatest)}."
    if times.future:
        words += f" {counted(times.future, 'batch has', 'batches have')} a time in the future."
    if outside:
        words += f" {human_size(outside)} lie outside of what is drawn."
    yield tag("p", words, class_="lead")
    yield chart


# --- retention, compaction, codecs ----------------------------------------------------------------------


def retention_section(run: Gathering, forecast: str) -> Iterator[Markup]:
    if not run.judged:
        return
    gone = [one for one in run.judged if one.outcome.deleted]
    segments, freed = sum(len(one.outcome.deleted) for one in gone), sum(one.freed() for one in gone)
    words = "A broker's next check would delete nothing."
    if segments:
        gone_text = f"{counted(segments, 'segment')}, {human_size(freed)} on the disk"
        words = f"A broker's next check would delete {gone_text}."
    yield tag("p", words)
    found = run.forecast
    if found is None or not found.points:
        return
    last = found.points[-1]
    yield tag(
        "p",
        f"All logs in the next {forecast}, if records keep coming as they did, "
        f"{human_size(found.bytes_a_day)} a day: from {human_size(found.points[0].size)} after that check "
        f"to {human_size(last.size)}.",
        class_="lead",
    )
    yield forecast_chart(found)
    if found.departures:
        yield from _departures(run)


def _departures(run: Gathering) -> Iterator[Markup]:
    assert run.forecast is not None
    largest = sorted(run.forecast.departures, key=lambda one: -one.segment.size)
    shown = sorted(largest[:MOST_DEPARTURES], key=lambda one: one.goes_ms)
    rows = [
        (
            one.judged.partition.directory,
            f"{one.segment.base_offset:,}",
            human_size(one.segment.size),
            str(one.rule),
            iso_time(one.goes_ms)[:16] + "Z",
        )
        for one in shown
    ]
    more = len(largest) - len(shown)
    title = f"What goes in that time: {counted(len(largest), 'segment')}"
    title += f", the largest {len(shown)}" if more else ""
    yield tag("details", tag("summary", title), table(_DEPARTURE_HEADS, rows))


def compaction_section(run: Gathering) -> Iterator[Markup]:
    if not run.compaction:
        return
    topics = sorted(run.compaction.items(), key=lambda one: (-one[1].bytes_removed, one[0]))
    rows = []
    for name, one in topics[:MOST_TOPICS]:
        share = one.bytes_removed / one.bytes_read if one.bytes_read else 0.0
        rows.append(
            (
                name,
                bar([("saved", share)], f"{share_text(share)} would go"),
                human_size(one.bytes_removed),
                share_text(share),
                human_size(one.bytes_read),
                f"{one.records_removed:,} of {one.records:,}",
                f"{one.partitions:,}",
            )
        )
    yield tag("p", "What one pass of the log cleaner would remove of compacted topics.", class_="lead")
    yield table(_COMPACTION_HEADS, rows)
    errors = [error for _name, one in topics for error in one.errors]
    if errors:
        yield tag("p", f"The cleaner of a broker would give up on {counted(len(errors), 'partition')}:")
        yield bullets(errors)


def codecs_section(run: Gathering) -> Iterator[Markup]:
    measured = [
        (CODEC_LABELS[at] or f"codec {at}", batches, records, size)
        for at, (batches, records, size) in enumerate(run.total.stats.codecs.tolist())
        if batches
    ]
    total = max(1, sum(one[3] for one in measured))
    rows = []
    for label, batches, records, size in sorted(measured, key=lambda one: -one[3]):
        kind = f"c-{label}" if label in CODEC_LABELS else "c-unknown"
        share = size / total
        rows.append(
            (
                label,
                bar([(kind, share)], f"{share_text(share)} of the bytes"),
                human_size(size),
                share_text(share),
                f"{batches:,}",
                f"{records:,}",
                f"{records / batches:,.1f}",
            )
        )
    if rows:
        yield table(_CODEC_HEADS, rows)


# --- the rest -------------------------------------------------------------------------------------------


def cache_section(cache: CacheShown) -> Iterator[Markup]:
    if not cache.strips:
        return
    yield cache_legend()
    for one in cache.strips:
        yield row(
            one.name, cache_strip(one.cells, "pages in memory, first byte to last"), one.share, one.meaning
        )
    words = "Each log from its first byte to its last, as it was before the report read it."
    if cache.left_out:
        words += f" {counted(cache.left_out, 'smaller partition')} left out."
    yield tag("p", words, class_="lead")


def settings_section(run: Gathering) -> Iterator[Markup]:
    groups: dict[str, list[str]] = {}
    for topic, one in {judged.partition.topic: judged for judged in run.judged if judged.is_asked}.items():
        groups.setdefault(_decisive(one), []).append(topic or "?")
    if not groups:
        return
    yield tag("p", "What decided about retention, and where it comes from.", class_="lead")
    rows = []
    for settings, topics in sorted(groups.items(), key=lambda one: -len(one[1]))[:MOST_SETTINGS]:
        names = ", ".join(topics[:12]) + (f" and {len(topics) - 12} more" if len(topics) > 12 else "")
        rows.append((names, settings))
    yield table((("Topics", "name"), ("Settings (where they come from)", "text")), rows, stacks=True)
    if len(groups) > MOST_SETTINGS:
        yield tag("p", f"{len(groups) - MOST_SETTINGS} other combinations are left out.", class_="lead")


def _decisive(one: JudgedLog) -> str:
    return settings_sentence(None, one.decisive).removeprefix("None: ")


def bullets(lines: list[str]) -> Markup:
    shown = [tag("li", line) for line in lines[:MOST_BULLETS]]
    if len(lines) > MOST_BULLETS:
        shown.append(tag("li", f"and {len(lines) - MOST_BULLETS:,} more"))
    return tag("ul", *shown)
