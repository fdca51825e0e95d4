"""`kafkatool rebuild-index`: indexes and producer snapshots from the log."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.options import (
    CommonOptions,
    ConfigOpt,
    FailOnOpt,
    FormatOpt,
    JobsOpt,
    PathOptions,
    RawOpt,
    epilog,
    severity,
)
from kafkatool.commands.line.plan_options import PlanOptions
from kafkatool.commands.screen.table import Rows, rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import Format
from kafkatool.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from kafkatool.engine.batches.damage import Severity
    from kafkatool.engine.directory.selection import Home, NamedPartition
    from kafkatool.engine.files.source import Guest
    from kafkatool.engine.jobs.worker_pool import Workers
    from kafkatool.engine.rebuild.planning import RebuildRequest, Rebuilt

EPILOG = epilog(
    {
        "kafkatool rebuild-index /var/lib/kafka/data/orders-0": (
            "what is wrong or missing, and the plan to rebuild it"
        ),
        "kafkatool rebuild-index --apply /var/lib/kafka/data/orders-0": (
            "rebuild; originals are kept beside the files"
        ),
        "kafkatool rebuild-index --apply --backup-dir /mnt/kept server.properties": (
            "all directories of a broker that is down"
        ),
        "kafkatool rebuild-index --undo <JOURNAL> --apply": "undo it",
    },
    4,
    5,
)

INTERVAL = "index.interval.bytes"


def rebuild_index(
    where: PathOptions,
    plan: PlanOptions,
    *,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Also rewrite files that are correct but not identical, including good snapshots."
        ),
    ] = False,
    fmt: FormatOpt = Format.table,
    raw: RawOpt = False,
    fail_on: FailOnOpt = "degraded",
    jobs: JobsOpt = 0,
    config: ConfigOpt = None,
    common: CommonOptions,
) -> None:
    """Rebuild .index, .timeindex, .txnindex and producer snapshots that do not match the log.

    Shows every file that is missing or does not match the log: WRONG counts entries that the log contradicts,
    MISSING those that it needs. Files whose entries are all correct and dense enough are kept, as a restarted
    broker keeps them. A snapshot with a correct checksum is trusted, and producers of later segments are
    counted from it. The log itself is never changed; see recover for that.
    """
    from kafkatool.commands.rows.plans import STEP_COLUMNS
    from kafkatool.engine.directory.selection import most_workers
    from kafkatool.engine.jobs.worker_pool import workers

    speak = common.talk()
    if plan.undo_instead(where, "rebuild-index", speak, fmt):
        return
    work = _RebuildRun(common.guest(), speak, plan, config, severity(fail_on), force=force)
    homes = work.find(where)
    with workers(jobs, most_workers(homes)) as pool, rows(fmt, STEP_COLUMNS, raw=raw) as out:
        for home in homes:
            work.rebuild(home, pool, out, fmt)
    raise typer.Exit(work.exit_code)


class _RebuildRun:
    def __init__(
        self,
        how: Guest,
        speak: Talk,
        plan: PlanOptions,
        config: str | None,
        fail_on: Severity,
        *,
        force: bool,
    ) -> None:
        from kafkatool.commands.rows.plans import now_ms, parse_settings

        self._guest = how
        self._talk = speak
        self._plan = plan
        self._settings = parse_settings(plan.settings or [], config, [INTERVAL])
        self._force = force
        self._fail_on = fail_on
        self._now_ms = now_ms()
        self.exit_code = ExitCode.OK

    def find(self, where: PathOptions) -> list[Home]:
        from kafkatool.engine.directory.named_file import SEGMENT_FILES
        from kafkatool.engine.directory.selection import Selection
        from kafkatool.engine.directory.targets import FileTarget
        from kafkatool.format.kinds import PRODUCER_SNAPSHOT

        expansion = where.expand(readable=(*SEGMENT_FILES, PRODUCER_SNAPSHOT))
        for target in expansion.targets:
            if isinstance(target, FileTarget) and target.read_as is not None:
                raise UsageError(f"{target.path}: not a file of a segment by its name: a broker ignores it")
        found = Selection(expansion.targets, self._guest)
        for problem in [*expansion.problems, *found.problems]:
            self._talk.warn(problem)
            self.exit_code = ExitCode.FAILED
        return found.homes

    def rebuild(self, home: Home, pool: Workers, out: Rows, fmt: Format) -> None:
        from kafkatool.commands.rows.plans import conclude, name_leftovers, step_row, write_row
        from kafkatool.engine.plan.evidence import gather_evidence
        from kafkatool.engine.rebuild.planning import as_plan

        how = self._plan.applying(self._now_ms)
        name_leftovers(home, how, self._talk, do_apply=self._plan.apply)
        meant = [named.partition for named in home.partitions]
        evidence = gather_evidence(home.log_dir, meant, with_content=self._plan.apply)
        done = self._all(home, pool)
        for part in done:
            for difference in part.differences:
                counts = (difference.entries, difference.only_there, difference.only_here)
                write_row(out, step_row(difference.step, difference.size_before, counts), fmt)
            self._tell_damage(part, out, fmt)
        self._talk.warn_of_bad_blocks(self._guest.errors.count)
        plan = replace(as_plan(home.path, done), evidence=evidence)
        conclude(plan, how, self._talk, out, fmt, do_apply=self._plan.apply)

    def _all(self, home: Home, pool: Workers) -> list[Rebuilt]:
        from kafkatool.commands.rows.plans import plans_of
        from kafkatool.engine.cluster.topic_settings import topic_settings

        known = topic_settings(home.path, self._guest)
        asks = [ask for named in home.partitions if (ask := self._ask(named, known)) is not None]
        return plans_of(asks, pool, self._guest, self._talk, self._leave)

    def _ask(self, named: NamedPartition, known: dict[str, dict[str, str]]) -> RebuildRequest | None:
        from kafkatool.engine.rebuild.planning import Rebuilding, RebuildRequest
        from kafkatool.errors import KafkatoolError

        try:
            interval = self._settings.of(known, named.partition.topic, INTERVAL)
        except KafkatoolError as error:
            self._leave(named.partition.path, error)
            return None
        return RebuildRequest(named, Rebuilding(self._now_ms, interval, self._force, named.bases))

    def _leave(self, path: str, why: object) -> None:
        self._talk.warn(f"{path}: {why}; left as it is")
        self.exit_code = ExitCode.FAILED

    def _tell_damage(self, part: Rebuilt, out: Rows, fmt: Format) -> None:
        from kafkatool.commands.rows.batches import LogPlace, damage_row, damage_sentence

        for path, damage in part.damage:
            place = LogPlace.of(path, self._guest)
            if fmt is Format.ndjson:
                out.write(damage_row(place, damage))
            else:
                self._talk.warn(damage_sentence(place, damage))
        if part.damage:
            directory = os.path.basename(os.path.abspath(part.partition.path))
            self._talk.warn(f"{directory}: transactions and snapshots behind the damage are left as they are")
            worst = max(damage.severity for _path, damage in part.damage)
            if self.exit_code is ExitCode.OK and worst >= self._fail_on:
                self.exit_code = ExitCode.FOUND
