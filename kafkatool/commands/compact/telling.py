"""The output of `compact`: settings, passes, the life of a key, the keys that waste most."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kafkatool.commands.rows.compaction import (
    PASS_COLUMNS,
    STAGE_COLUMNS,
    WASTE_COLUMNS,
    for_people,
    group_sentences,
    map_sentence,
    pass_row,
    range_row,
    range_sentence,
    stage_row,
    waste_rows,
)
from kafkatool.commands.rows.plans import conclude
from kafkatool.commands.rows.settings import early_end_sentence, setting_row, settings_sentence
from kafkatool.commands.rows.transactions import transaction_row, transaction_sentence
from kafkatool.commands.screen.outcome import RunOutcome
from kafkatool.commands.screen.table import Rows, rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.told import told
from kafkatool.commands.screen.values import BytesFormat, Format, Row, bytes_json
from kafkatool.engine.cluster.effective_settings import SettingOrigin, TopicSettingsFound
from kafkatool.engine.cluster.metadata_end import OldMetadata
from kafkatool.engine.compaction.partition_run import (
    CompactionRequest,
    KeyFollowed,
    PassesRun,
    RangeFound,
    SwapPlanned,
    WasteFound,
)
from kafkatool.engine.compaction.run import CompactionEvent
from kafkatool.engine.directory.log_dir import Partition
from kafkatool.engine.plan.steps import Plan
from kafkatool.errors import KafkatoolError, Refused


@dataclass(slots=True)
class Telling:
    """Rows go to stdout, sentences to stderr."""

    request: CompactionRequest
    talk: Talk
    outcome: RunOutcome
    fmt: Format
    bytes_as: BytesFormat
    out: Rows = field(init=False)

    @contextmanager
    def rows(self, *, raw: bool) -> Iterator[None]:
        """Open the output for rows; its columns depend on the options."""
        columns = PASS_COLUMNS if self.request.key is None else STAGE_COLUMNS
        with rows(self.fmt, columns if self.request.top is None else WASTE_COLUMNS, raw=raw) as self.out:
            yield

    def tell(self, run: Generator[CompactionEvent, None, None]) -> None:
        """Show the result for all partitions, and put new segments in place if requested."""
        for event in told(run, self.talk, self.outcome):
            match event:
                case OldMetadata(end, topics):
                    self.talk.warn(early_end_sentence(end, topics))
                case TopicSettingsFound():
                    self._settings(event)
                case RangeFound(partition, dirty, cleaner):
                    self.talk.note(range_sentence(partition.directory, dirty, cleaner))
                case PassesRun():
                    self._passes(event)
                case KeyFollowed(partition, life):
                    key = self._key(life.key)
                    for stage in sorted(life.stages, key=lambda one: one.offset):
                        self._write(stage_row(partition, key, stage), partition)
                case WasteFound(partition, waste):
                    for row in waste_rows(partition, waste, self.request.top or 0, self._key):
                        self._write(row, partition)
                case SwapPlanned(partition, plan):
                    self._apply(partition, plan)

    def _apply(self, partition: Partition, plan: Plan) -> None:
        from kafkatool.engine.plan.applying import Stopped

        try:
            conclude(plan, self.request.how, self.talk, self.out, self.fmt, do_apply=True)
        except (Refused, Stopped):
            raise
        except (FileNotFoundError, KafkatoolError) as error:
            self.outcome.fail(self.talk, [f"{partition.path}: {error}; left as it is"])

    def _key(self, key: bytes) -> object:
        return bytes_json(key, self.bytes_as)

    def _settings(self, found: TopicSettingsFound) -> None:
        if self.fmt is Format.ndjson:
            for setting in found.settings:
                self.out.write(setting_row(found.topic, setting))
        elif self.talk.verbose:
            self.talk.note(settings_sentence(found.topic, found.settings))
        else:
            said = [setting for setting in found.settings if setting.origin is not SettingOrigin.DEFAULT]
            words = settings_sentence(found.topic, said)
            rest = "" if len(said) == len(found.settings) else "; the rest by default, -v tells"
            self.talk.note(words + rest)

    def _passes(self, found: PassesRun) -> None:
        partition, name = found.partition, found.partition.directory
        for row in _pass_rows(found):
            self._write(row, partition)
            if row["pass"] and (words := map_sentence(name, row)) is not None:
                self.talk.note(words)
            for words in group_sentences(name, row) if row["pass"] and self.talk.verbose else ():
                self.talk.note(words)
        for one in found.transactions if self.fmt is not Format.ndjson else ():
            self.talk.warn(f"{name}: {transaction_sentence(one, 'nothing after it is cleaned')}")

    def _write(self, row: Row, partition: Partition) -> None:
        self.out.write(row if self.fmt is Format.ndjson else for_people(row, partition))


def _pass_rows(found: PassesRun) -> Iterator[Row]:
    """Yield one row per pass; without any, one for what could be cleaned."""
    done, cleaner = found.done, found.cleaner
    transactions = list(map(transaction_row, found.transactions))
    for number, each in enumerate(done.passes, 1):
        row = range_row(found.partition, done.before, each.dirty, found.at_ms, cleaner, transactions)
        yield pass_row(row, number, each, cleaner)
    if not done.passes:
        yield range_row(found.partition, done.before, done.dirty, found.at_ms, cleaner, transactions)
