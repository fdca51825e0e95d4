"""What `compact` tells: settings, passes, the life of a key, the keys that waste most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kafkatool.commands.rows.compaction import (
    Cleaner,
    for_people,
    group_sentences,
    map_sentence,
    pass_row,
    range_row,
    range_sentence,
    stage_row,
    waste_rows,
)
from kafkatool.commands.rows.settings import setting_row, settings_sentence
from kafkatool.commands.rows.transactions import transaction_row, transaction_sentence
from kafkatool.commands.screen.table import Rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import BytesFormat, Format, Row, bytes_json
from kafkatool.engine.cluster.effective_settings import SettingOrigin
from kafkatool.format.names import TopicPartition

if TYPE_CHECKING:
    from kafkatool.engine.cluster.effective_settings import Setting, TopicSettings
    from kafkatool.engine.compaction.cleanable_log import CleanableLog
    from kafkatool.engine.compaction.key_life import KeyLife
    from kafkatool.engine.compaction.passes import Compacted
    from kafkatool.engine.compaction.waste import Waste
    from kafkatool.engine.directory.selection import Home, NamedPartition
    from kafkatool.engine.files.source import Guest
    from kafkatool.engine.transactions.verdicts import JudgedTransaction, TransactionVerdicts

# What --apply must be sure of.
DECISIVE = (
    *("cleanup.policy", "delete.retention.ms", "min.compaction.lag.ms"),
    *("segment.bytes", "segment.index.bytes", "index.interval.bytes"),
)
TOLD = (*DECISIVE, "max.compaction.lag.ms", "min.cleanable.dirty.ratio")
OF_BROKERS = tuple(
    f"log.cleaner.{name}" for name in ("enable", "dedupe.buffer.size", "threads", "io.buffer.load.factor")
)


@dataclass(frozen=True, slots=True)
class CompactRequest:
    """A compacted partition, and what it goes by."""

    named: NamedPartition
    settings: TopicSettings
    brokers: dict[str, Setting]

    @property
    def key(self) -> TopicPartition:
        return self.named.partition.key

    @property
    def cleaner(self) -> Cleaner:
        is_on, size, threads, factor = (one.value for one in self.brokers.values())
        ratio = float(str(self.settings.config.values["min.cleanable.dirty.ratio"]))
        count = int(str(threads))
        return Cleaner(ratio, is_on is True and count > 0, int(str(size)), max(1, count), float(str(factor)))


class CompactContext(NamedTuple):
    """When, and where to look."""

    at_ms: int
    guest: Guest
    verdicts: TransactionVerdicts


@dataclass(frozen=True, slots=True)
class Telling:
    """Rows go to stdout, sentences to stderr."""

    _asking: CompactContext
    _talk: Talk
    _fmt: Format
    _bytes_as: BytesFormat

    def to(self, talk: Talk) -> Telling:
        """The same, with sentences for somebody else."""
        return Telling(self._asking, talk, self._fmt, self._bytes_as)

    def settings(self, one: CompactRequest, out: Rows) -> None:
        settings = [*(one.settings.settings[name] for name in TOLD), *one.brokers.values()]
        if self._fmt is Format.ndjson:
            for setting in settings:
                out.write(setting_row(one.settings.topic, setting))
        elif self._talk.verbose:
            self._talk.note(settings_sentence(one.settings.topic, settings))
        else:
            said = [setting for setting in settings if setting.origin is not SettingOrigin.DEFAULT]
            words = settings_sentence(one.settings.topic, said)
            rest = "" if len(said) == len(settings) else "; the rest by default, -v tells"
            self._talk.note(words + rest)

    def passes(self, home: Home, one: CompactRequest, done: Compacted, out: Rows) -> None:
        named, name, cleaner = one.named, one.named.partition.directory, one.cleaner
        self._talk.note(range_sentence(name, done.dirty, cleaner))
        judged = self._open_transactions(home, named, done.before)
        transactions = list(map(transaction_row, judged))
        if not done.passes:
            row = range_row(
                named.partition, done.before, done.dirty, self._asking.at_ms, cleaner, transactions
            )
            self._write(row, named, out)
        for number, each in enumerate(done.passes, 1):
            row = range_row(
                named.partition, done.before, each.dirty, self._asking.at_ms, cleaner, transactions
            )
            row = pass_row(row, number, each, cleaner)
            self._write(row, named, out)
            if (words := map_sentence(name, row)) is not None:
                self._talk.note(words)
            for words in group_sentences(name, row) if self._talk.verbose else ():
                self._talk.note(words)
        if self._fmt is not Format.ndjson:
            self._warn_of_transactions(named, judged)

    def _open_transactions(
        self, home: Home, named: NamedPartition, log: CleanableLog
    ) -> list[JudgedTransaction]:
        from kafkatool.engine.transactions.open_transactions import open_transactions_of

        found = open_transactions_of(named.partition, log.producers, log.log_end, self._asking.guest)
        return self._asking.verdicts.of(home.log_dir, found)

    def _warn_of_transactions(self, named: NamedPartition, judged: list[JudgedTransaction]) -> None:
        for one in judged:
            words = transaction_sentence(one, "nothing after it is cleaned")
            self._talk.warn(f"{named.partition.directory}: {words}")

    def key(self, named: NamedPartition, log: CleanableLog, life: KeyLife, out: Rows) -> None:
        life.look_at_the_rest(log, self._asking.guest)
        key = bytes_json(life.key, self._bytes_as)
        for stage in sorted(life.stages, key=lambda one: one.offset):
            self._write(stage_row(named.partition, key, stage), named, out)

    def waste(self, named: NamedPartition, waste: Waste, most: int, out: Rows) -> None:
        def show(key: bytes) -> object:
            return bytes_json(key, self._bytes_as)

        for row in waste_rows(named.partition, waste, most, show):
            self._write(row, named, out)

    def _write(self, row: Row, named: NamedPartition, out: Rows) -> None:
        out.write(row if self._fmt is Format.ndjson else for_people(row, named.partition))
