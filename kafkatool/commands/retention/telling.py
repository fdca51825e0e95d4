"""The output of `retention`: verdicts, plans, a forecast, ways to free space."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kafkatool.commands.rows.plans import STEP_COLUMNS, conclude, show_plan
from kafkatool.commands.rows.retention import (
    CHANGE_COLUMNS,
    DEPARTURE_COLUMNS,
    FORECAST_COLUMNS,
    HELD_COLUMNS,
    VERDICT_COLUMNS,
    bar,
    change_row,
    departure_row,
    forecast_row,
    gone_sentence,
    held_row,
    unknown_sentence,
    verdict_row,
)
from kafkatool.commands.rows.settings import early_end_sentence, setting_row, settings_sentence
from kafkatool.commands.screen.outcome import RunOutcome
from kafkatool.commands.screen.table import Column, Rows, rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.told import Run, told
from kafkatool.commands.screen.values import Format, Row, human_duration, human_size, printable
from kafkatool.engine.cluster.effective_settings import TopicSettingsFound
from kafkatool.engine.cluster.metadata_end import OldMetadata
from kafkatool.engine.plan.steps import Plan
from kafkatool.engine.retention.forecast import Forecast
from kafkatool.engine.retention.held import HeldBack
from kafkatool.engine.retention.logs import JudgedLog
from kafkatool.engine.retention.run import (
    DeletionEvent,
    DeletionPlanned,
    JudgingEvent,
    RetentionRun,
    UnjudgedLog,
    VerdictsFound,
    WaysFound,
)


@dataclass(frozen=True, slots=True)
class RetentionTelling:
    """Rows go to stdout, sentences to stderr."""

    run: RetentionRun
    talk: Talk
    outcome: RunOutcome
    fmt: Format
    raw: bool

    def delete(self, run: Run[DeletionEvent]) -> None:
        """Show the verdicts, directory by directory, and the plans to carry them out."""
        for event in told(run, self.talk, self.outcome):
            match event:
                case VerdictsFound():
                    self._verdicts(event)
                case DeletionPlanned(plan, unknown) if plan.steps or not unknown or self.fmt is Format.ndjson:
                    is_shown = self.fmt is Format.table and self.talk.verbose
                    with rows(self.fmt, STEP_COLUMNS if is_shown else (), raw=self.raw) as out:
                        self._carry_out(plan, out)
                case _:
                    self._judged(event)

    def purge(self, run: Run[Plan]) -> None:
        """Show what is unlinked, or would be."""
        with rows(self.fmt, STEP_COLUMNS, raw=self.raw) as out:
            for plan in told(run, self.talk, self.outcome):
                self._carry_out(plan, out)

    def forecast(self, run: Run[JudgingEvent | Forecast], text: str) -> None:
        """Show when segments are deleted, and how many bytes are expected."""
        for event in told(run, self.talk, self.outcome):
            if not isinstance(event, Forecast):
                self._judged(event)
                continue
            if self.fmt is not Format.csv:
                leaving = (self._named(departure_row(one), one.judged) for one in event.departures)
                self._write(DEPARTURE_COLUMNS, leaving)
            largest = max(point.size for point in event.points)
            points = ((point, forecast_row(point)) for point in event.points)
            drawn = self.fmt is Format.table
            self._write(
                FORECAST_COLUMNS,
                ({**row, "bar": bar(point.size, largest)} if drawn else row for point, row in points),
            )
            a_day = human_size(event.bytes_a_day)
            self.talk.note(f"{a_day} per day arrive, by the timestamps of the last {text}")

    def free(self, run: Run[JudgingEvent | WaysFound]) -> None:
        """Show ways to free space, and the commands for them."""
        for event in told(run, self.talk, self.outcome):
            if isinstance(event, WaysFound):
                self._ways(event)
            else:
                self._judged(event)

    def _judged(self, event: object) -> None:
        match event:
            case TopicSettingsFound(topic, settings) if self.fmt is Format.ndjson:
                self._write((), (setting_row(topic, setting) for setting in settings))
            case TopicSettingsFound(topic, settings):
                self.talk.note(settings_sentence(topic, settings))
            case OldMetadata(end, topics):
                self.talk.warn(early_end_sentence(end, topics))
            case UnjudgedLog(judged):
                self.outcome.fail(self.talk, [unknown_sentence(judged)])

    def _verdicts(self, found: VerdictsFound) -> None:
        self._write(
            VERDICT_COLUMNS,
            (
                self._named(verdict_row(one, verdict, self.run.judging.now_ms), one)
                for one in found.judged
                for verdict in one.outcome.verdicts
            ),
        )
        gone = [one for one in found.judged if one.outcome.deleted]
        check_ms = max((one.check_ms for one in gone), default=0)
        delay_ms = max((one.delay_ms for one in gone), default=0)
        count, freed = sum(len(one.outcome.deleted) for one in gone), sum(one.freed() for one in gone)
        self.talk.note(gone_sentence(found.log_dir, count, freed, found.unknown, check_ms, delay_ms))

    def _carry_out(self, plan: Plan, out: Rows) -> None:
        show_plan(plan, out, self.fmt)
        conclude(plan, self.run.how, self.talk, out, self.fmt, do_apply=self.run.is_applied)

    def _ways(self, found: WaysFound) -> None:
        held, changes = self._ways_as_rows(found)
        # CSV has one header: expired data that is held back has other columns, and is reported as sentences.
        if held:
            self._write(HELD_COLUMNS if self.fmt is not Format.csv else (), map(self._within, held))
        self._write(CHANGE_COLUMNS, map(self._within, changes))
        for row in held if self.fmt is Format.csv else ():
            self.talk.warn(f"rank {row['rank']}: {row['message']}: {row['delete_command']}")
        if self.fmt is Format.table:
            for row in sorted([*held, *changes], key=lambda row: int(str(row["rank"]))):
                print(_commands(row))
        if found.most < found.wanted:
            wanted, most = human_size(found.wanted), human_size(found.most)
            message = f"no change of retention frees {wanted} here; at most {most}"
            self.outcome.fail(self.talk, [message])

    def _ways_as_rows(self, found: WaysFound) -> tuple[list[Row], list[Row]]:
        """Return the rows of what is held back, and those of changed settings."""
        held: list[Row] = []
        changes: list[Row] = []
        for rank, way in enumerate(found.ways, 1):
            for one in way:
                if isinstance(one, HeldBack):
                    within_ms = one.judged.check_ms + one.judged.delay_ms
                    held.append(self._named(held_row(rank, one, within_ms), one.judged))
                else:
                    changes.append(change_row(rank, one, found.waits[one.topic]))
        return held, changes

    def _within(self, row: Row) -> Row:
        within = {"within": human_duration(int(str(row["within_ms"])))}
        return row if self.fmt is Format.ndjson else {**row, **within}

    def _named(self, row: Row, one: JudgedLog) -> Row:
        return row if self.fmt is Format.ndjson else {**row, "partition_name": one.partition.directory}

    def _write(self, columns: Sequence[Column], found: Iterable[Row]) -> None:
        with rows(self.fmt, columns, raw=self.raw) as out:
            for row in found:
                out.write(row)


def _commands(row: Row) -> str:
    """Return the commands to paste, and what they do or how to reverse them."""
    rank = f"\n# rank {row['rank']}"
    if row["kind"] == "held":
        return f"{rank}: {printable(str(row['message']))}\n{printable(str(row['delete_command']))}"
    commands = (printable(str(row[name])) for name in ("set_command", "undo_command"))
    return "{}\n{}\n# and back\n{}".format(rank, *commands)
