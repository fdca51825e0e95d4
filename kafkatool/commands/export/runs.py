"""How `export` goes through partitions: into one file, or one file per segment."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from kafkatool.commands.export.writers import ExportWriter, Opener
from kafkatool.commands.records.reading import RecordReading
from kafkatool.commands.records.rounds import Rounds
from kafkatool.engine.advice.table import Advice
from kafkatool.engine.batches.damage import Severity, SeverityMet
from kafkatool.engine.batches.partition_walk import SegmentLog
from kafkatool.engine.files.disk import Files
from kafkatool.engine.files.whole_files import Replacement, make_directories, remove_leftovers
from kafkatool.engine.jobs.events import Failure, Said
from kafkatool.engine.records.export_output import MANIFEST, ExportDone, ExportOrigin, Manifest
from kafkatool.engine.records.stream import RecordPiece, RecordStream, Start, StreamItem
from kafkatool.engine.records.subject import Subject, is_inside, logs_of
from kafkatool.engine.records.visibility import PASSING
from kafkatool.errors import KafkatoolError, Refused, UsageError
from kafkatool.format import kinds

_OF_SEGMENTS = r"\d{20}\.\w+"
_OF_A_LOG_DIR = (kinds.META_PROPERTIES, kinds.RECOVERY_POINTS, kinds.HIGH_WATERMARKS, kinds.LOG_STARTS)


SegmentEvent = Said | SeverityMet | ExportDone


@dataclass(slots=True)
class ExportTally:
    """How many files were written or skipped."""

    files: int = 0
    skipped: int = 0


@dataclass(slots=True)
class Export:
    """One run of `export`."""

    reading: RecordReading
    files: Files
    open_writer: Opener
    extension: str
    settings: str
    advance: Callable[[int], None]
    tally: ExportTally = field(default_factory=ExportTally)

    def into_file(
        self, subjects: list[Subject], path: str, limit: int | None = None, tail: int | None = None
    ) -> None:
        """Write all records into one file; at most `limit`, and the last `tail` of each partition."""
        self.make_directory(os.path.dirname(path), re.escape(os.path.basename(path)))
        with Replacement(self.files, path) as sink:
            writer = self.open_writer(sink)
            Rounds(self.reading, writer, limit, self.advance).once(subjects, tail)
            self._finish(writer, sink)

    def into_directory(self, subjects: list[Subject], directory: str) -> None:
        """Write `<partition>/<base offset>.<extension>`; skip segments that are done and have not changed."""
        refuse_same_names(subjects)
        manifest = self.open_manifest(directory)
        for subject in subjects:
            self.make_directory(os.path.join(directory, subject.name))
            stream: RecordStream | None = None
            for log in logs_of(subject.named, wanted=self.reading.chosen.wanted):
                name = os.path.join(subject.name, f"{log.base_offset:020d}.{self.extension}")
                origin = self.origin(log, subject)
                if origin is None or self.is_done(manifest, name, origin):
                    continue
                # Skipped segments may hold the beginning of an open transaction.
                stream = stream or self.reading.stream(subject, start=Start(log, 0), advance=self.advance)
                path = os.path.join(directory, name)
                self.take(self.write_segment(stream, log, path, origin), manifest, name)

    def origin(self, log: SegmentLog, subject: Subject) -> ExportOrigin | None:
        try:
            return ExportOrigin.of(log.path, log.base_offset, subject.log_start, self.settings)
        except FileNotFoundError:
            self.reading.talk.note(f"{log.path}: deleted since its directory was listed")
            return None

    def is_done(self, manifest: Manifest, name: str, origin: ExportOrigin) -> bool:
        done = manifest.finished(name, origin)
        if done is None:
            return False
        self.tally.skipped += 1
        self.advance(origin.size)
        if done.worst is not None:
            self.reading.talk.warn(
                f"{origin.log}: was damaged when it was exported; {Advice.VERIFY(where=origin.log)}"
            )
            self.reading.outcome.met_severity(Severity[done.worst.upper()])
        return True

    def write_segment(
        self, stream: RecordStream, log: SegmentLog, path: str, origin: ExportOrigin
    ) -> Iterator[SegmentEvent]:
        """Write one file, but none if the log cannot be opened: it would look like a finished export."""
        reading = self.reading
        rows, passing = reading.shown, self._passing()
        met: list[Severity] = []
        could_be_read = True
        with Replacement(self.files, path) as sink:
            writer = self.open_writer(sink)
            for event in self._write(stream.pieces_of(log), writer):
                could_be_read = could_be_read and not isinstance(event, Failure)
                met += [event.severity] if isinstance(event, SeverityMet) else []
                yield event
            if could_be_read:
                self._finish(writer, sink)
        if log.path in reading.mends:
            met.append(Severity.DEGRADED)
            yield SeverityMet(Severity.DEGRADED)
        if could_be_read:
            label = max(met).label if met else None
            yield ExportDone(origin, reading.shown - rows, self._passing() == passing, label)

    def take(self, events: Iterable[SegmentEvent], manifest: Manifest, name: str) -> None:
        """Report the events of a segment, and record that it is done."""
        for event in events:
            if isinstance(event, ExportDone):
                manifest.put(name, event)
            else:
                self.reading.say(event)

    def _passing(self) -> int:
        return sum(self.reading.hidden.counts[rule] for rule in PASSING)

    def _write(self, pieces: Iterator[StreamItem], writer: ExportWriter) -> Iterator[Said | SeverityMet]:
        for found in pieces:
            if not isinstance(found, RecordPiece):
                yield from self.reading.told_of(found)
                continue
            rows = self.reading.rows(found)
            if len(rows):
                writer.write(found, rows)
                self.reading.shown += len(rows)

    def _finish(self, writer: ExportWriter, sink: Replacement) -> None:
        writer.close()
        sink.commit()
        self.tally.files += 1

    def open_manifest(self, directory: str) -> Manifest:
        """Make the directory of an export, and read what was done in it."""
        self.make_directory(directory, re.escape(MANIFEST))
        return Manifest(self.files, directory)

    def make_directory(self, path: str, names: str = _OF_SEGMENTS) -> None:
        """Make a directory, and remove leftovers of killed runs with such names."""
        try:
            make_directories(self.files, path)
            remove_leftovers(self.files, path, names)
        except OSError as error:
            raise KafkatoolError(f"{error.filename}: {error.strerror}") from None


def refuse_same_names(subjects: list[Subject]) -> None:
    """Check that no two partitions have the same name: copies would be written to the same files."""
    seen: dict[str, str] = {}
    for subject in subjects:
        if subject.name in seen:
            raise UsageError(
                f"{seen[subject.name]} and {subject.partition.path} are both {subject.name}: "
                "export them to directories of their own"
            )
        seen[subject.name] = subject.partition.path


def refuse_inside_logs(subjects: list[Subject], output: str) -> None:
    """Check that output stays out of log directories: a broker fails on directories that it does not know."""
    for subject in subjects:
        if is_inside(output, subject.partition.path):
            raise Refused(f"{output}: is inside {subject.partition.path}, where only a broker writes")
    for home in {subject.home for subject in subjects}:
        if is_inside(output, home) and any(os.path.exists(os.path.join(home, k.name)) for k in _OF_A_LOG_DIR):
            raise Refused(f"{output}: is inside the log directory {home}, where only a broker writes")
