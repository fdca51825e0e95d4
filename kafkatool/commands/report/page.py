"""The page of `report`: what is wrong and what to do first, then everything that explains it.

Lists that would grow without end are cut, and the page says so: the worst and the largest are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafkatool import __version__
from kafkatool.commands.report.cache import CacheShown
from kafkatool.commands.report.findings import findings_section, records_section
from kafkatool.commands.report.sections import (
    bullets,
    cache_section,
    codecs_section,
    compaction_section,
    hours_section,
    retention_section,
    settings_section,
    time_section,
    topics_section,
)
from kafkatool.commands.report.style import STYLE
from kafkatool.commands.report.words import ReportVerdict, counted, verdict
from kafkatool.commands.screen.page import Markup, join, page, tag
from kafkatool.commands.screen.values import human_size, iso_time
from kafkatool.engine.files.lock import broker_is_alive
from kafkatool.engine.report.gathering import Gathering
from kafkatool.engine.report.records_around import Around
from kafkatool.engine.report.trouble import Trouble


@dataclass(slots=True)
class Told:
    """Everything that the page shows of one run."""

    run: Gathering
    cache: CacheShown
    host: str
    forecast: str
    deep: bool
    records: list[tuple[Trouble, list[Around]]] | None = None
    """None: payloads are left out."""


def report_page(told: Told) -> Iterator[str]:
    """Return the page, in pieces of text."""
    return page(f"kafkatool report: {verdict(told.run).state}", STYLE, _body(told))


def _body(told: Told) -> Iterator[str]:
    run = told.run
    sections = [
        ("findings", "What is wrong", findings_section(run)),
        ("records", "Records around the damage", records_section(told.records)),
        ("topics", "Topics", topics_section(run)),
        ("time", "Segments in time", time_section(run)),
        ("hours", "When it was written", hours_section(run)),
        ("retention", "Retention", retention_section(run, told.forecast)),
        ("compaction", "Compaction", compaction_section(run)),
        ("codecs", "Codecs", codecs_section(run)),
        ("cache", "Page cache", cache_section(told.cache)),
        ("settings", "Settings", settings_section(run)),
        ("remarks", "How it was read", _remarks(told)),
    ]
    there = [(anchor, title, content) for anchor, title, parts in sections if (content := list(parts))]
    yield tag("header", *_head(told))
    yield tag("nav", join((tag("a", title, href=f"#{anchor}") for anchor, title, _content in there), " "))
    yield "\n<main>\n"
    for anchor, title, content in there:
        yield tag("section", tag("h2", title), Markup("\n"), *content, id=anchor) + "\n"
    yield "</main>\n"
    payloads = (
        "with keys and values of records" if told.records is not None else "no key and no value of a record"
    )
    yield tag("footer", f"kafkatool {__version__}, {iso_time(run.now_ms)}. In this file: {payloads}.") + "\n"


# --- top ------------------------------------------------------------------------------------------------


def _head(told: Told) -> Iterator[Markup]:
    yield tag("h1", "kafkatool report ", tag("b", ", ".join(_places(told.run))))
    yield _verdict(verdict(told.run))
    yield tag("dl", *_who(told), class_="who")
    yield tag("div", *_tiles(told), class_="tiles")


def _verdict(said: ReportVerdict) -> Markup:
    parts = [tag("p", said.state, class_="state"), tag("p", said.sentence, class_="say")]
    parts.append(tag("p", said.advice))
    if said.command is not None:
        parts.append(tag("pre", said.command))
    return tag("div", *parts, class_=f"verdict {said.kind}")


def _places(run: Gathering) -> list[str]:
    named = [one.path for one in run.log_dirs] or [place.partition.path for place in run.places]
    return named[:4] + ([f"{len(named) - 4} more"] if len(named) > 4 else [])


def _who(told: Told) -> Iterator[Markup]:
    run = told.run
    metas = {one.meta for one in run.all_log_dirs if one.meta is not None}
    clusters = sorted({one.cluster_id for one in metas if one.cluster_id})
    nodes = sorted({str(one.node_id) for one in metas if one.node_id is not None})
    facts = {
        "Cluster": ", ".join(clusters) or "not known",
        "Node": ", ".join(nodes) or "not known",
        "Directories": ", ".join(one.path for one in run.all_log_dirs) or "not known",
        "Broker": _broker(run),
        "Time of the report": iso_time(run.now_ms),
        "Read on": f"{told.host}, by kafkatool {__version__}",
    }
    for name, value in facts.items():
        yield tag("div", tag("dt", name), tag("dd", value))


def _broker(run: Gathering) -> str:
    found = run.all_log_dirs
    if any(broker_is_alive(one.path) for one in found):
        return "running, it holds the lock"
    if not found:
        return "not known"
    clean = all(one.was_shut_down_cleanly for one in found)
    return "stopped, shut down cleanly" if clean else "not running, and no clean shutdown"


def _tiles(told: Told) -> Iterator[Markup]:
    run = told.run
    summary, freed = run.summary, sum(one.freed for one in run.topics.values())
    removed = sum(one.bytes_removed for one in run.compaction.values())
    segments, partitions = sum(one.segments for one in run.topics.values()), summary.partitions
    tiles = [
        (human_size(run.verification.size), f"in {counted(segments, 'segment')}"),
        (
            f"{partitions:,}",
            f"partition{'' if partitions == 1 else 's'} of {counted(len(run.topics), 'topic')}",
        ),
        (f"{summary.records:,}", f"records in {counted(summary.batches, 'batch', 'batches')}"),
        (f"{sum(one.total for one in run.troubles):,}", "findings, without notes"),
        (human_size(freed), "retention would delete now"),
    ]
    if run.compaction:
        tiles.append((human_size(removed), "compaction would remove"))
    if told.cache.log_size:
        tiles.append((told.cache.share, "of the logs in memory"))
    for value, words in tiles:
        tone = verdict(run).kind if words.startswith("findings") else ""
        yield tag("div", tag("b", value), tag("span", words), class_=f"tile {tone}".strip())


# --- end --------------------------------------------------------------------------------------------


def _remarks(told: Told) -> Iterator[Markup]:
    summary = told.run.summary
    depth = "Every batch was checked" if not told.deep else "Every batch was checked and every record decoded"
    if summary.sample is not None:
        depth = f"A sample was checked: {100 * summary.sample:.4g}% of the data asked for"
    read = f"{human_size(summary.size)} of {human_size(summary.total_size)} were read"
    words = f"{depth}: {read}. Nothing was changed."
    if summary.deleted_partitions:
        left = counted(summary.deleted_partitions, "directory that waits", "directories that wait")
        words += f" {left} to be deleted ({human_size(summary.deleted_size)}) were left out."
    yield tag("p", words)
    if summary.failures:
        yield tag("p", f"{counted(len(summary.failures), 'input')} could not be read:")
        yield bullets(summary.failures)
    notes = told.run.cache_notes
    remarks = [*summary.notes, *notes.failures]
    if notes.untold:
        remarks.append(
            f"{counted(notes.untold, 'file')}: not told what is in memory: run as the broker's user, or root"
        )
    if remarks:
        yield bullets(remarks)
