"""What `cat` and `export` share: which records are shown, what is reported about others, and the outcome."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

from kafkatool.commands.line.arguments import Control
from kafkatool.commands.line.options import PathOptions
from kafkatool.commands.line.record_filters import RecordFilter
from kafkatool.commands.rows.batches import LogPlace, damage_sentence, record_row
from kafkatool.commands.screen.outcome import RunOutcome
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.told import say
from kafkatool.engine.batches.damage import Severity, SeverityMet
from kafkatool.engine.batches.mending import Mender
from kafkatool.engine.batches.range_columns import records_in
from kafkatool.engine.batches.records import bad_records
from kafkatool.engine.batches.scan import Batch
from kafkatool.engine.directory.named_file import SEGMENT_FILES
from kafkatool.engine.directory.selection import Selection
from kafkatool.engine.files.source import Guest
from kafkatool.engine.files.stdin_log import STDIN
from kafkatool.engine.jobs.events import Caution, Detail, Failure, Note, Said
from kafkatool.engine.records.fates import TransactionFate
from kafkatool.engine.records.stream import RecordPiece, RecordStream, Start, UnreadPiece
from kafkatool.engine.records.subject import Subject, subjects_of
from kafkatool.engine.records.visibility import Hidden, VisibilityRule
from kafkatool.format import kinds
from kafkatool.format.columns import RecordColumns
from kafkatool.format.legacy import LegacyHeader
from kafkatool.format.names import METADATA_TOPIC
from kafkatool.format.record import Record

_FATES = [fate.label for fate in TransactionFate]

Rows = NDArray[np.int64]


@dataclass(slots=True)
class RecordReading:
    """One run of a command that shows records."""

    chosen: RecordFilter
    show_all: bool
    max_batch_size: int
    high_watermark: int | None
    guest: Guest
    talk: Talk
    outcome: RunOutcome = field(default_factory=RunOutcome)
    hidden: Hidden = field(default_factory=Hidden)
    shown: int = 0
    failures: set[str] = field(default_factory=set)
    """Problems that were reported: what could not be read."""
    redacted: int = 0
    """How many records were left out because they contain secrets."""
    stdin: str | None = None
    """The path where standard input is stored; messages call it `-`."""
    mends: dict[str, set[str]] = field(default_factory=dict)
    """By log: the flipped bits that were reported."""
    says_mends: bool = True
    """False if the process that started this one reports them, so that each is reported once."""
    _place: Callable[[str], LogPlace] = field(init=False)

    def __post_init__(self) -> None:
        if isinstance(self.guest.mending, Mender):
            self.guest.mending.tell = lambda mend: self.mended(mend.path, mend.message)
        self._place = cache(lambda path: LogPlace.of(STDIN if path == self.stdin else path, self.guest))

    @property
    def takes_everything(self) -> bool:
        """Whether no filter is set that could leave something out."""
        return self.chosen == RecordFilter(leaves_out_secrets=self.chosen.leaves_out_secrets)

    def subjects(self, where: PathOptions) -> list[Subject]:
        """Return the partitions that were named; report what could not be read."""
        expansion = where.expand(readable=SEGMENT_FILES)
        found = Selection(expansion.targets, self.guest)
        for problem in [*expansion.problems, *found.problems]:
            self.fail(problem)
        subjects = list(subjects_of(found.homes, self.high_watermark))
        self._say_what_is_guessed(subjects)
        is_secret = any(one.partition.topic == METADATA_TOPIC for one in subjects)
        if is_secret and not self.chosen.leaves_out_secrets:
            self.talk.warn(
                f"{METADATA_TOPIC}: may show credentials and sensitive configs; --redact leaves them out"
            )
        return subjects

    def topics(self, subjects: list[Subject]) -> list[str]:
        """Return the topics by their real names, where directory names are truncated."""
        paths = (os.path.join(one.partition.path, kinds.LOG.name) for one in subjects)
        return sorted({topic for path in paths if (topic := self.place(path).topic) is not None})

    def _say_what_is_guessed(self, subjects: list[Subject]) -> None:
        if self.show_all or self.high_watermark is not None:
            return
        names = [one.name for one in subjects if one.limits.high_watermark is None]
        if names:
            self.talk.note(f"{_some(names)}: no high watermark on this disk: read to the end of the log")

    def stream(
        self,
        subject: Subject,
        *,
        start: Start | None = None,
        follows: bool = False,
        advance: Callable[[int], None] | None = None,
    ) -> RecordStream:
        return RecordStream(
            subject,
            self.guest,
            wanted=self.chosen.wanted,
            start=start,
            follows=follows,
            waits=follows and not self.show_all,
            max_batch_size=self.max_batch_size,
            advance=advance,
        )

    def fail(self, problem: str) -> None:
        """Report that something cannot be read, once; the rest is shown."""
        if problem not in self.failures:
            self.talk.warn(problem)
        self.failures.add(problem)
        self.outcome.failed = True

    def place(self, path: str) -> LogPlace:
        return self._place(path)

    def rows(self, piece: RecordPiece, *, counts: bool = True) -> Rows:
        """Return which records of a piece are shown; count those that a rule hides."""
        chosen = self._chosen(piece, counts=counts)
        if self.show_all:
            return chosen
        rule = piece.judged.rule[chosen]
        if self.chosen.control is Control.only:
            rule = np.where(rule == VisibilityRule.CONTROL, VisibilityRule.SHOWN, rule).astype(np.uint8)
        if counts:
            self.hidden.add(rule)
        shown: Rows = chosen[rule == VisibilityRule.SHOWN]
        return shown

    def _chosen(self, piece: RecordPiece, *, counts: bool) -> Rows:
        """Do the same as RecordFilter.takes, for many records at once; only content is checked one by one."""
        columns, judged, chosen = piece.columns, piece.judged, self.chosen
        takes = records_in(chosen.wanted, columns.offset, columns.timestamp_ms)
        if chosen.producer_id is not None:
            takes &= ((columns.batches.producer_id == chosen.producer_id) & (columns.batches.magic == 2))[
                columns.batch
            ]
        if chosen.control is not None:
            takes &= (judged.is_control == (chosen.control is Control.only))[columns.batch]
        rows = np.flatnonzero(takes)
        if chosen.leaves_out_secrets and self.place(piece.log.path).topic == METADATA_TOPIC:
            every, rows = len(rows), _without_secrets(columns, rows)
            self.redacted += every - len(rows) if counts else 0
        return self._with_content(columns, rows) if chosen.asks_for_content else rows

    def _with_content(self, columns: RecordColumns, rows: Rows) -> Rows:
        """Return the rows whose key and headers match; sizes rule out most of them cheaply."""
        chosen = self.chosen
        if chosen.keys:
            rows = rows[np.isin(columns.key_size[rows], [len(key) for key in chosen.keys])]
        if chosen.headers:
            rows = rows[columns.headers_count[rows] > 0]
        found = [
            row
            for row in rows.tolist()
            if chosen.takes_content(columns.key(row), columns.headers(row) if chosen.headers else ())
        ]
        return np.array(found, dtype=np.int64)

    def told_of(self, found: UnreadPiece | Note | Caution | Failure) -> Iterator[Said | SeverityMet]:
        """Yield what to report about anything that is not a piece; reading continues."""
        if not isinstance(found, UnreadPiece):
            yield found
            return
        damage = found.damage
        if damage is None:
            assert found.batch is not None
            assert found.error is not None
            damage = bad_records(found.batch, found.error)
        yield SeverityMet(damage.severity)
        sentence = damage_sentence(self.place(found.log.path), damage)
        yield Detail(sentence) if damage.severity is Severity.NOTE else Caution(sentence)

    def say(self, event: Said | SeverityMet) -> None:
        """Report one event; what cannot be read is reported once."""
        if isinstance(event, Failure):
            self.fail(event.message)
        else:
            say(event, self.talk, self.outcome)

    def mended(self, path: str, message: str) -> None:
        """Report that a flipped bit was found in a log; once, even if several readers find it."""
        said = self.mends.setdefault(path, set())
        is_new = message not in said
        said.add(message)
        if is_new and self.says_mends:
            self.talk.warn(f"{STDIN if path == self.stdin else path}: {message}")

    def conclude(self) -> None:
        """Report what is due at the end. A log whose bits were mended in memory is still damaged on disk."""
        self.say_hidden()
        if self.mends:
            self.outcome.met_severity(Severity.DEGRADED)

    def say_hidden(self) -> None:
        """Report how many records each rule hid."""
        lost = self.hidden.counts[VisibilityRule.UNKNOWN]
        if lost:
            self.talk.warn(
                f"hidden: {lost} unknown, because the damage may contain the end of their transactions"
            )
        if self.redacted:
            self.talk.note(f"left out because they contain secrets: {self.redacted}")
        sentence = self.hidden.sentence()
        if sentence:
            self.talk.note(f"hidden, as for a read_committed consumer: {sentence}; --all shows them")


def visible_row(
    place: LogPlace, piece: RecordPiece, row: int, batch: Batch, record: Record
) -> dict[str, object]:
    """Return a record's NDJSON row, including its visibility."""
    found = record_row(place, batch, record, payload=True)
    header, number, judged = batch.header, piece.columns.batch[row], piece.judged
    is_legacy = isinstance(header, LegacyHeader)
    if is_legacy:
        found["sequence"] = None
    return found | {
        "producer_id": None if is_legacy else header.producer_id,
        "producer_epoch": None if is_legacy else header.producer_epoch,
        "partition_leader_epoch": None if is_legacy else header.partition_leader_epoch,
        "is_control": bool(judged.is_control[number]),
        "txn": _FATES[judged.fate[number]],
        "above_high_watermark": bool(judged.above_high_watermark[row]),
        "below_log_start": bool(judged.below_log_start[row]),
    }


def _without_secrets(columns: RecordColumns, rows: Rows) -> Rows:
    from kafkatool.format.schema import holds_secrets

    kept = [row for row in rows.tolist() if not holds_secrets(columns.key(row), columns.value(row))]
    return np.array(kept, dtype=np.int64)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def log_bytes(subjects: Iterable[Subject]) -> int:
    """Return how many bytes there are to read, for a progress bar."""
    return sum(subject.named.log_bytes for subject in subjects)
