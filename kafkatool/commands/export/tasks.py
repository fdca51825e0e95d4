"""`export` in many processes or on many machines: one task per segment, written where it is read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from kafkatool.commands.export.runs import Export, SegmentEvent, refuse_same_names
from kafkatool.commands.export.writers import opener
from kafkatool.commands.line.record_filters import RecordFilter
from kafkatool.commands.records.reading import RecordReading
from kafkatool.commands.records.visible_options import ExportFormat
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import BytesFormat
from kafkatool.engine.batches.partition_walk import SegmentLog
from kafkatool.engine.files.disk import Disk
from kafkatool.engine.files.source import Guest
from kafkatool.engine.jobs.in_order import in_order
from kafkatool.engine.jobs.worker_pool import Workers
from kafkatool.engine.records.export_output import ExportDone, ExportOrigin, Manifest
from kafkatool.engine.records.stream import Start
from kafkatool.engine.records.subject import Subject, logs_of
from kafkatool.engine.records.visibility import Hidden


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """What all segments of an export share."""

    chosen: RecordFilter
    show_all: bool
    max_batch_size: int
    high_watermark: int | None
    guest: Guest
    fmt: ExportFormat
    topics: tuple[str, ...]
    bytes_as: BytesFormat
    settings: str
    is_csv_safe: bool

    @classmethod
    def of(
        cls,
        reading: RecordReading,
        workers: int,
        fmt: ExportFormat,
        topics: tuple[str, ...],
        bytes_as: BytesFormat,
        settings: str,
        is_csv_safe: bool,
    ) -> ExportRequest:
        """Build the request from a reading, for one of so many workers."""
        return cls(
            reading.chosen,
            reading.show_all,
            reading.max_batch_size,
            reading.high_watermark,
            reading.guest.one_of(workers),
            fmt,
            topics,
            bytes_as,
            settings,
            is_csv_safe,
        )


@dataclass(frozen=True, slots=True)
class SegmentRequest:
    how: ExportRequest
    subject: Subject
    log: SegmentLog
    name: str
    path: str
    origin: ExportOrigin

    @property
    def reads(self) -> str:
        """The log that is read; `path` is the file that is written."""
        return self.log.path

    @property
    def bytes_to_read(self) -> int:
        return self.origin.size


@dataclass(frozen=True, slots=True)
class SegmentAnswer:
    """The result of one segment."""

    events: list[SegmentEvent]
    hidden: Hidden
    redacted: int
    mends: dict[str, set[str]]


def export_segment(ask: SegmentRequest) -> SegmentAnswer:
    """Export one segment into one file, wherever this runs."""
    how = ask.how
    reading = RecordReading(
        how.chosen,
        how.show_all,
        how.max_batch_size,
        how.high_watermark,
        how.guest,
        Talk(),  # what it would print is sent back
        says_mends=False,  # others read the same log
    )
    writers = opener(how.fmt, how.topics, how.bytes_as, reading, is_csv_safe=how.is_csv_safe)
    export = Export(reading, Disk(), writers, str(how.fmt), how.settings, lambda size: None)
    # Earlier segments were not read here: transactions open at the start are looked up.
    stream = reading.stream(ask.subject, start=Start(ask.log, 0))
    events = list(export.write_segment(stream, ask.log, ask.path, ask.origin))
    return SegmentAnswer(events, reading.hidden, reading.redacted, reading.mends)


def export_on(
    pool: Workers, export: Export, how: ExportRequest, subjects: list[Subject], directory: str
) -> None:
    """Write the same files and manifest as `Export.into_directory`."""
    refuse_same_names(subjects)
    manifest = export.open_manifest(directory)
    for ask, answer in in_order(pool, export_segment, _asks(export, how, subjects, directory, manifest)):
        found, reading = answer.result(), export.reading
        export.take(found.events, manifest, ask.name)
        for path, messages in found.mends.items():
            for message in sorted(messages):
                reading.mended(path, message)
        reading.hidden.counts.update(found.hidden.counts)
        reading.redacted += found.redacted
        for done in found.events:
            if isinstance(done, ExportDone):
                reading.shown += done.rows
                export.tally.files += 1
        export.advance(ask.origin.size)


def _asks(
    export: Export, how: ExportRequest, subjects: list[Subject], directory: str, manifest: Manifest
) -> Iterator[SegmentRequest]:
    for subject in subjects:
        export.make_directory(os.path.join(directory, subject.name))
        for log in logs_of(subject.named, wanted=how.chosen.wanted):
            name = os.path.join(subject.name, f"{log.base_offset:020d}.{export.extension}")
            origin = export.origin(log, subject)
            if origin is not None and not export.is_done(manifest, name, origin):
                yield SegmentRequest(how, subject, log, name, os.path.join(directory, name), origin)
