"""dump-log as rows: table, NDJSON, CSV."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from kafkatool.commands.dump_log.request import (
    AnyRecord,
    DumpRequest,
    Quota,
    opened,
    tails,
    warn_of_secrets,
)
from kafkatool.commands.rows.batches import (
    BATCH,
    BATCH_COLUMNS,
    CSV_KEYS,
    RECORD,
    RECORD_COLUMNS,
    LogPlace,
    batch_row,
    damage_row,
    damage_sentence,
    record_row,
    table_row,
)
from kafkatool.commands.rows.row_table import RowTable, plain_columns
from kafkatool.commands.rows.side_files import is_of_partition, side_rows, side_table
from kafkatool.commands.screen.outcome import RunOutcome
from kafkatool.commands.screen.table import Column, Look, rows
from kafkatool.commands.screen.values import Format, Row
from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.batches.records import bad_records
from kafkatool.engine.batches.scan import Batch
from kafkatool.engine.batches.tail import Tail
from kafkatool.engine.files.stdin_log import STDIN
from kafkatool.errors import FormatError, KafkatoolError, UsageError
from kafkatool.format import kinds
from kafkatool.format.schema import control_row, decode_row, decoder_for_topic


class RowDump:
    """Prints files as rows; damage is a row in its place."""

    def __init__(self, request: DumpRequest, fmt: Format, outcome: RunOutcome) -> None:
        self.request = request
        self.fmt = fmt
        self.outcome = outcome
        self.quota = Quota(request.limit)

    def dump(self, groups: Iterable[list[str]]) -> int:
        """Print every file; return how many rows there were."""
        shapes: list[str] = []
        for shape, files in groupby(self._files(groups), key=lambda file: self._shape(file[0])):
            shapes.append(shape.kind)
            if self.fmt is Format.csv and len(shapes) > 1:
                raise UsageError(
                    f"csv holds one kind of row, these files have {' and '.join(shapes)}: name one kind"
                )
            self._dump_shape(shape, files)
        return self.quota.shown

    def _files(self, groups: Iterable[list[str]]) -> Iterator[tuple[str, Tail | None]]:
        for group in groups:
            if self.request.tail is None:
                yield from ((path, None) for path in group)
            else:
                found = tails(group, self.request, self.outcome)
                yield from ((path, found[path]) for path in group if path in found)

    def _shape(self, path: str) -> RowTable:
        """Return the kind of rows that a file gives."""
        side = None if path == STDIN else side_table(self.request.kind(path))
        return side or (RECORD if self.request.shows_records else BATCH)

    def _dump_shape(self, shape: RowTable, files: Iterator[tuple[str, Tail | None]]) -> None:
        request = self.request
        with rows(self.fmt, self._columns(shape), raw=request.raw, how=request.how) as writer:
            for path, tail in files:
                place = LogPlace.of(path, self.request.guest)
                warn_of_secrets(request, place)
                for row in self._rows(shape, place, tail):
                    if self.fmt is Format.csv and row["kind"] == "damage":
                        continue
                    writer.write(table_row(row, place) if self.fmt is Format.table else row)
                if self.quota.is_spent:
                    return

    def _columns(self, shape: RowTable) -> Sequence[Column]:
        if shape not in (BATCH, RECORD):
            own = shape.keys[3:] if is_of_partition(shape) else shape.keys[1:]
            where = () if self.fmt is Format.table else ("topic", "partition")
            keys = ("file", *(key for key in where if key not in own), *own)
            return [Column(key, key.upper(), _look(key)) for key in keys]
        if self.fmt is not Format.table:
            return plain_columns(CSV_KEYS[shape.kind])
        shown = BATCH_COLUMNS if shape is BATCH else RECORD_COLUMNS
        has_payload = self.request.classic.print_data_log
        return [one for one in shown if has_payload or one.key not in ("key_text", "value_text")]

    def _rows(self, shape: RowTable, place: LogPlace, tail: Tail | None) -> Iterator[Row]:
        if shape in (BATCH, RECORD):
            return self._log_rows(place, tail)
        return self._side_rows(place)

    def _side_rows(self, place: LogPlace) -> Iterator[Row]:
        kind = self.request.kind(place.path)
        try:
            for row in side_rows(kind, place, self.request.guest):
                if self.quota.take():
                    yield row
        except FormatError as error:
            yield self._damage(place, _bad_side_file(kind, error))
        except (KafkatoolError, OSError) as error:
            self.outcome.failed = True
            told = str(error) if isinstance(error, KafkatoolError) else f"{place.path}: {error.strerror}"
            self.request.talk.warn(told)

    def _log_rows(self, place: LogPlace, tail: Tail | None) -> Iterator[Row]:
        with opened(place.path, self.request, self.outcome) as source:
            if source is None:
                return
            self.quota.skip = tail.skip if tail else 0
            for item in self.request.walk(source, place.path, tail, chain=False):
                if isinstance(item, Damage):
                    yield self._damage(place, item)
                elif not self.request.shows_records:
                    if self.quota.take():
                        yield batch_row(place, item)
                else:
                    yield from self._record_rows(place, item)
                if self.quota.is_spent:
                    return

    def _record_rows(self, place: LogPlace, batch: Batch) -> Iterator[Row]:
        try:
            for record in self.request.records(batch):
                if self.quota.is_spent:
                    return
                if self.quota.take():
                    yield self._record_row(place, batch, record)
        except FormatError as error:
            if batch.is_valid:  # otherwise the wrong checksum was reported already
                yield self._damage(place, bad_records(batch, error))

    def _record_row(self, place: LogPlace, batch: Batch, record: AnyRecord) -> Row:
        row = record_row(place, batch, record, payload=self.request.classic.print_data_log)
        if not self.request.classic.print_data_log:
            return row
        decoded = self._decoded(place, batch, record)
        if decoded is not None:
            row["decoded"] = decoded
            if self.request.classic.redact:  # the raw bytes would reveal what was hidden
                del row["key"], row["value"]
        return row

    def _decoded(self, place: LogPlace, batch: Batch, record: AnyRecord) -> dict[str, object] | None:
        if batch.header.is_control:
            return control_row(record.key, record.value)
        topic = place.topic
        if topic is None and self.request.kind(place.path) is kinds.BOOTSTRAP:
            topic = "__cluster_metadata"
        decoder = None if topic is None else decoder_for_topic(topic)
        if decoder is None:
            return None
        return decode_row(decoder, record.key, record.value, redacted=self.request.classic.redact)

    def _damage(self, place: LogPlace, damage: Damage) -> Row:
        self.outcome.met(damage)
        if self.fmt is Format.csv:
            self.request.talk.warn(damage_sentence(place, damage))
        return damage_row(place, damage)


def _bad_side_file(kind: kinds.FileKind, error: FormatError) -> Damage:
    if kind.group is kinds.Group.INDEX:
        problem = FindingClass.BAD_INDEX
    elif kind is kinds.PRODUCER_SNAPSHOT:
        problem = FindingClass.BAD_SNAPSHOT
    elif kind.name.endswith("-checkpoint"):
        problem = FindingClass.BAD_CHECKPOINT
    else:
        problem = FindingClass.BAD_METADATA
    return Damage(
        kind=problem,
        position=error.at,
        end_position=error.at,
        expected=str(error.expected),
        found=str(error.found),
        message=str(error),
        severity=Severity.DEGRADED,
    )


def _look(key: str) -> Look:
    if key.endswith("_ms"):
        return Look.time
    return Look.text if key in ("file", "topic", "topic_id", "cluster_id", "checkpoint") else Look.number
