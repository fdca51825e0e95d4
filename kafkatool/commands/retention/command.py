"""`kafkatool retention`: which segments a broker would delete, why the others stay, and how to free space."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from kafkatool.commands.line.broker_options import BrokerOptions
from kafkatool.commands.line.options import CommonOptions, FormatOpt, JobsOpt, PathOptions, RawOpt, epilog
from kafkatool.commands.line.plan_options import PlanOptions
from kafkatool.commands.line.spark_options import SparkOptions
from kafkatool.commands.retention.options import AskOptions
from kafkatool.commands.screen.table import Column, Rows, rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import Format, Row
from kafkatool.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from kafkatool.engine.cluster.effective_settings import Sources
    from kafkatool.engine.cluster.remote_copies import EpochOffsets
    from kafkatool.engine.directory.selection import Home, NamedPartition
    from kafkatool.engine.files.source import Guest
    from kafkatool.engine.jobs.worker_pool import Workers
    from kafkatool.engine.plan.evidence import Evidence
    from kafkatool.engine.plan.steps import Plan
    from kafkatool.engine.retention.free import Way
    from kafkatool.engine.retention.logs import JudgedLog

EPILOG = epilog(
    {
        "kafkatool retention /var/lib/kafka/data/orders-0": "every segment: does it go, and if not, why",
        "kafkatool retention --at now+3d /var/lib/kafka/data": "the same in three days",
        "kafkatool retention --set retention.ms=3600000 /var/lib/kafka/data": "what if it were an hour",
        "kafkatool retention --forecast 7d server.properties": "bytes over the next week",
        "kafkatool retention --free 200G server.properties": "the smallest changes that free so much",
        "kafkatool retention --apply --move-to /mnt/kept server.properties": "do it now, a broker being down",
        "kafkatool retention --purge --apply /var/lib/kafka/data": "unlink what was deleted long enough ago",
    },
    5,
)

_STEPS = 24
_MOST_WAYS = 10


def retention(
    where: PathOptions,
    plan: PlanOptions,
    broker: BrokerOptions,
    ask: AskOptions,
    *,
    fmt: FormatOpt = Format.table,
    raw: RawOpt = False,
    jobs: JobsOpt = 0,
    where_to_run: SparkOptions,
    common: CommonOptions,
) -> None:
    """Tell what the next retention check of a broker deletes, segment by segment, and why the rest stays.

    Decided as a broker does: first what lies below the log start offset, then by retention.bytes, then by
    retention.ms, oldest first, until the first segment that stays. A setting comes from --set, --config, the
    metadata on the same disk, a server.properties, or Kafka's defaults; what decided is told with where it
    comes from. With --apply, on a directory that no broker uses, files are renamed to .deleted, as a broker
    does, which frees nothing yet: a broker unlinks them when it starts, or --purge does it. Never by a mere
    default or by metadata that ended more than a minute before the directory did, unless --set or --config
    says it again, and never up to a high watermark that is assumed. Of a compacted topic nobody can tell
    from a disk whether the cleaner has given it up: then nothing goes until a restart. How far a tiered topic
    is copied to remote storage is read from __remote_log_metadata on the same disks; where that is not there,
    segments that hang on it are unknown: they stay, and the exit code is 3. --free names first what has
    expired and is only held back by a record with a time in the future, and the command that deletes it.
    """
    speak = common.talk()
    if plan.undo_instead(where, "retention", speak, fmt, ask.move_to):
        return
    ask.refuse_nonsense(plan)
    work = _RetentionRun(common.guest(), speak, plan, broker, fmt=fmt, raw=raw)
    work.judge_with(ask.remote_offset, check_times=ask.check_times)
    work.find(where)
    if ask.purge:
        work.purge()
    else:
        pool = where_to_run.workers(jobs, work.most_workers, speak, "reading", work.size)
        with pool as (work.pool, work.advance):
            if ask.forecast is not None:
                work.forecast(ask.forecast)
            elif ask.free is not None:
                work.free(ask.free)
            else:
                work.delete(ask.move_to)
    raise typer.Exit(work.exit_code)


class _RetentionRun:
    def __init__(
        self, guest: Guest, speak: Talk, plan: PlanOptions, broker: BrokerOptions, *, fmt: Format, raw: bool
    ) -> None:
        from kafkatool.commands.rows.plans import now_ms

        self._guest, self._talk, self._plan = guest, speak, plan
        self._broker = broker
        self._fmt, self._raw = fmt, raw
        self._now_ms = now_ms()
        self.exit_code = ExitCode.OK
        self.pool: Workers
        self.advance: Callable[[int], None]

    @property
    def size(self) -> int:
        """Bytes of all logs that are meant."""
        return sum(named.log_bytes for home in self._homes for named in home.partitions)

    @property
    def most_workers(self) -> int:
        """More are not worth their start; without --check-times hardly anything is read."""
        from kafkatool.engine.directory.selection import most_workers

        return most_workers(self._homes) if self._how.check_times else 1

    def judge_with(self, remote_offset: int | None, *, check_times: bool) -> None:
        """Settle the moment, and what nobody can read from the disk."""
        from kafkatool.engine.retention.logs import RetentionRequest

        number, _is_assumed = self._broker.watermark(None)
        at_end = self._broker.high_watermark == "end"
        moment = self._broker.moment(self._now_ms)
        if self._plan.apply and moment > self._now_ms:
            raise UsageError("--at a time to come is for telling: --apply does what is due by now")
        self._how = RetentionRequest(moment, number, at_end, remote_offset, check_times)

    def find(self, where: PathOptions) -> None:
        from kafkatool.engine.cluster.remote_copies import RemoteCopies
        from kafkatool.engine.directory.selection import Selection

        expansion = where.directories()
        found = Selection(expansion.targets, self._guest)
        for problem in [*expansion.problems, *found.problems]:
            self._fail(problem)
        self._found, self._homes, self._paths = found, found.homes, expansion.named
        self._copies = RemoteCopies(
            [home.log_dir for home in found.homes],
            [*expansion.named, self._broker.config or ""],
            self._guest,
            at_log_end=self._how.at_log_end,
        )
        count = sum(len(home.partitions) for home in found.homes)
        if self._how.remote_offset is not None and count != 1:
            raise UsageError("--remote-offset takes one partition")
        if self._how.high_watermark is not None and count != 1:
            raise UsageError("--high-watermark N takes one partition")

    def _fail(self, message: str) -> None:
        self._talk.warn(message)
        self.exit_code = ExitCode.FAILED

    # --- judging --------------------------------------------------------------------------------------

    def _sources(self, home: Home) -> Sources:
        given = self._plan.settings or []
        return self._broker.sources(home, self._found, self._paths, given, self._guest)

    def _judge(self, home: Home) -> list[JudgedLog]:
        from kafkatool.engine.jobs.in_order import in_order
        from kafkatool.engine.retention.logs import JudgeRequest, judge_one
        from kafkatool.errors import KafkatoolError

        judged = []
        sources, log_dir, guest = self._sources(home), home.log_dir, self._guest.one_of(self.pool.count)
        asks = [
            JudgeRequest(one.partition, log_dir, sources, self._how, guest, self._copied(home, one, sources))
            for one in home.partitions
        ]
        for ask, answer in in_order(self.pool, judge_one, asks):
            try:
                judged.append(answer.result())
            except UsageError:
                raise
            except (FileNotFoundError, KafkatoolError) as error:
                self._fail(f"{ask.path}: {error}; left as it is")
            self.advance(sum(one.log.size for one in ask.partition.live_segments if one.log))
        self._tell_settings(judged)
        self._warn_of_old_metadata(sources, judged)
        self._tell_unknown(judged)
        return judged

    def _copied(self, home: Home, named: NamedPartition, sources: Sources) -> EpochOffsets | None:
        from kafkatool.engine.retention.logs import copied_of

        if self._how.remote_offset is not None:
            return None
        return copied_of(named.partition, home.log_dir, sources, self._copies)

    def _tell_unknown(self, judged: list[JudgedLog]) -> None:
        """What cannot be told is not done, and not passed over either: the exit code says so."""
        from kafkatool.commands.rows.retention import unknown_sentence

        for one in judged:
            if one.unknown:
                self._fail(unknown_sentence(one))

    def _warn_of_old_metadata(self, sources: Sources, judged: list[JudgedLog]) -> None:
        from kafkatool.commands.rows.settings import early_end_sentence

        asked = [one for one in judged if one.is_asked]
        topics = [one.partition.topic for one in asked if not all(it.is_certain for it in one.decisive)]
        if sources.metadata_end is not None and topics:
            self._talk.warn(early_end_sentence(sources.metadata_end, topics))

    def _tell_settings(self, judged: list[JudgedLog]) -> None:
        from kafkatool.commands.rows.settings import setting_row, settings_sentence

        topics = {one.partition.topic: one for one in judged if one.is_asked}
        with self._rows(()) as out:
            for topic, one in topics.items():
                if self._fmt is Format.ndjson:
                    for setting in one.decisive:
                        out.write(setting_row(topic, setting))
                else:
                    self._talk.note(settings_sentence(topic, one.decisive))
                if one.settings.ignored:
                    self._talk.note(f"{topic}: set, but not known here: {', '.join(one.settings.ignored)}")
        assumed = [one.partition.directory for one in judged if one.is_asked and one.watermark_is_assumed]
        if assumed:
            names = ", ".join(assumed[:3]) + (f" and {len(assumed) - 3} more" if len(assumed) > 3 else "")
            self._talk.note(f"no high watermark for {names}: the end of the log stands in")

    @contextmanager
    def _rows(self, columns: tuple[Column, ...]) -> Iterator[Rows]:
        """Where rows go: nowhere in a table or CSV without columns for them."""
        if columns or self._fmt is Format.ndjson:
            with rows(self._fmt, columns, raw=self._raw) as out:
                yield out
        else:
            yield _Nowhere()

    def _named(self, row: Row, one: JudgedLog) -> Row:
        return row if self._fmt is Format.ndjson else {**row, "partition_name": one.partition.directory}

    # --- deleting -------------------------------------------------------------------------------------

    def delete(self, move_to: str | None) -> None:
        """Show the verdicts, directory by directory, and with --apply act on them."""
        from kafkatool.commands.rows.retention import VERDICT_COLUMNS, gone_sentence, verdict_row
        from kafkatool.engine.retention.deletion import plan_deletion, refuse_guesses

        for home in self._homes:
            evidence = self._evidence(home)
            judged = self._judge(home)
            with self._rows(VERDICT_COLUMNS) as out:
                for one in judged:
                    for verdict in one.outcome.verdicts:
                        out.write(self._named(verdict_row(one, verdict, self._how.now_ms), one))
            gone = [one for one in judged if one.outcome.deleted]
            check_ms = max((one.check_ms for one in gone), default=0)
            delay_ms = max((one.delay_ms for one in gone), default=0)
            count, freed = sum(len(one.outcome.deleted) for one in gone), sum(one.freed() for one in gone)
            unknown = sum(one.unknown for one in judged)
            self._talk.note(gone_sentence(home.path, count, freed, unknown, check_ms, delay_ms))
            if self._plan.apply:
                refuse_guesses(judged)
            plan = plan_deletion(home.path, judged, self._guest, self._now_ms, move_to)
            if plan.steps or not unknown or self._fmt is Format.ndjson:
                self._conclude(replace(plan, evidence=evidence))

    def _evidence(self, home: Home) -> Evidence:
        from kafkatool.commands.rows.plans import name_leftovers
        from kafkatool.engine.plan.evidence import gather_evidence

        how = self._plan.applying(self._now_ms)
        name_leftovers(home, how, self._talk, do_apply=self._plan.apply)
        meant = [one.partition for one in home.partitions]
        return gather_evidence(home.log_dir, meant, with_content=self._plan.apply)

    def _conclude(self, plan: Plan) -> None:
        from kafkatool.commands.rows.plans import STEP_COLUMNS, conclude, step_row, write_row

        is_shown = self._fmt is Format.table and self._talk.verbose
        with self._rows(STEP_COLUMNS if is_shown else ()) as out:
            for step in plan.steps:
                size = os.path.getsize(step.path) if os.path.lexists(step.path) else None
                write_row(out, step_row(step, size), self._fmt)
            how = self._plan.applying(self._now_ms)
            conclude(plan, how, self._talk, out, self._fmt, do_apply=self._plan.apply)

    def purge(self) -> None:
        """Unlink what was deleted, or say what that would be."""
        from kafkatool.commands.rows.plans import STEP_COLUMNS, conclude, step_row, write_row
        from kafkatool.engine.retention.deletion import plan_purge

        with self._rows(STEP_COLUMNS) as out:
            for home in self._homes:
                sources = self._sources(home)
                delays = [
                    (one.partition, sources.of(one.partition.topic).config.number("file.delete.delay.ms"))
                    for one in home.partitions
                ]
                plan = replace(plan_purge(home.path, delays, self._how.now_ms), evidence=self._evidence(home))
                for step in plan.steps:
                    write_row(out, step_row(step, os.path.getsize(step.path)), self._fmt)
                how = self._plan.applying(self._now_ms)
                conclude(plan, how, self._talk, out, self._fmt, do_apply=self._plan.apply)

    # --- looking ahead ----------------------------------------------------------------------------------

    def _everything(self) -> list[JudgedLog]:
        return [one for home in self._homes for one in self._judge(home)]

    def forecast(self, text: str) -> None:
        from kafkatool.commands.line.arguments import parse_duration
        from kafkatool.commands.rows.retention import (
            DEPARTURE_COLUMNS,
            FORECAST_COLUMNS,
            bar,
            departure_row,
            forecast_row,
        )
        from kafkatool.commands.screen.values import human_size
        from kafkatool.engine.retention.forecast import forecast

        duration_ms = parse_duration(text)
        if duration_ms < _STEPS:
            raise UsageError(f"--forecast {text}: too short to look at")
        judged = self._everything()
        found = forecast(judged, self._how.now_ms, duration_ms, _STEPS)
        if self._fmt is not Format.csv:
            with self._rows(DEPARTURE_COLUMNS) as out:
                for departure in found.departures:
                    out.write(self._named(departure_row(departure), departure.judged))
        largest = max(point.size for point in found.points)
        with self._rows(FORECAST_COLUMNS) as out:
            for point in found.points:
                row = forecast_row(point)
                drawn = {"bar": bar(point.size, largest)} if self._fmt is Format.table else {}
                out.write({**row, **drawn})
        self._talk.note(
            f"{human_size(found.bytes_a_day)} a day come in, by the timestamps of the last {text}"
        )

    def free(self, text: str) -> None:
        from kafkatool.commands.line.arguments import parse_size
        from kafkatool.commands.screen.values import human_size
        from kafkatool.engine.retention.free import ways_to_free
        from kafkatool.engine.retention.held import held_back

        wanted = parse_size(text)
        if not wanted:
            raise UsageError(f"--free {text}: that is nothing")
        judged, now_ms = self._everything(), self._how.now_ms
        ways = ways_to_free(judged, held_back(judged, now_ms, self._guest), wanted, now_ms)[:_MOST_WAYS]
        held, changes = self._ways_as_rows(ways, judged)
        self._show_ways(held, changes)
        if self._fmt is Format.table:
            for row in sorted([*held, *changes], key=lambda row: int(str(row["rank"]))):
                print(_commands(row))
        most = max((sum(one.freed for one in way) for way in ways), default=0)
        if most < wanted:
            self._fail(f"no change of retention frees {human_size(wanted)} here; at most {human_size(most)}")

    def _ways_as_rows(self, ways: list[Way], judged: list[JudgedLog]) -> tuple[list[Row], list[Row]]:
        """What is held back, and changes of settings."""
        from kafkatool.commands.rows.retention import change_row, held_row
        from kafkatool.engine.retention.held import HeldBack

        waits = {one.partition.topic: one.check_ms + one.delay_ms for one in judged}
        held: list[Row] = []
        changes: list[Row] = []
        for rank, way in enumerate(ways, 1):
            for one in way:
                if isinstance(one, HeldBack):
                    within_ms = one.judged.check_ms + one.judged.delay_ms
                    held.append(self._named(held_row(rank, one, within_ms), one.judged))
                else:
                    changes.append(change_row(rank, one, waits[one.topic]))
        return held, changes

    def _show_ways(self, held: list[Row], changes: list[Row]) -> None:
        from kafkatool.commands.rows.retention import CHANGE_COLUMNS, HELD_COLUMNS
        from kafkatool.commands.screen.values import human_duration

        # CSV has one header: what is held back has other columns, and is told as a sentence.
        has_table = held and self._fmt is not Format.csv
        for columns, found in ((HELD_COLUMNS if has_table else (), held), (CHANGE_COLUMNS, changes)):
            if not found and columns is HELD_COLUMNS:
                continue
            with self._rows(columns) as out:
                for row in found:
                    within = {"within": human_duration(int(str(row["within_ms"])))}
                    out.write(row if self._fmt is Format.ndjson else {**row, **within})
        for row in held if self._fmt is Format.csv else ():
            self._talk.warn(f"rank {row['rank']}: {row['message']}: {row['delete_command']}")


def _commands(row: Row) -> str:
    """What to paste, and what comes of it or leads back."""
    from kafkatool.commands.screen.values import printable

    rank = f"\n# rank {row['rank']}"
    if row["kind"] == "held":
        return f"{rank}: {printable(str(row['message']))}\n{printable(str(row['delete_command']))}"
    commands = (printable(str(row[name])) for name in ("set_command", "undo_command"))
    return "{}\n{}\n# and back\n{}".format(rank, *commands)


class _Nowhere:
    """Where rows go that have no place in a table of other columns."""

    def write(self, row: Row) -> None: ...

    def close(self) -> None: ...
