"""Rebuild the files beside the logs of log directories from these logs."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import NamedTuple

from kafkatool.engine.cluster.topic_settings import NumberSettings, topic_settings
from kafkatool.engine.directory.selection import Home
from kafkatool.engine.files.source import Guest
from kafkatool.engine.jobs.events import Caution, Failure
from kafkatool.engine.jobs.worker_pool import Workers
from kafkatool.engine.plan.evidence import gather_evidence
from kafkatool.engine.plan.in_order import plans_of
from kafkatool.engine.plan.leftovers import leftovers_named
from kafkatool.engine.plan.steps import Applying, Plan
from kafkatool.engine.rebuild.planning import Rebuilding, RebuildRequest, Rebuilt, as_plan
from kafkatool.errors import KafkatoolError

INTERVAL = "index.interval.bytes"


class DirectoryRebuilt(NamedTuple):
    """What is wrong in one log directory, and the plan that corrects it."""

    parts: list[Rebuilt]
    plan: Plan


@dataclass(frozen=True, slots=True)
class RebuildRun:
    """Settings of a rebuild, the same for every directory."""

    settings: NumberSettings
    how: Applying
    is_applied: bool
    guest: Guest
    force: bool = False

    def rebuild(
        self, home: Home, pool: Workers, advance: Callable[[int], None]
    ) -> Generator[Caution | Failure | DirectoryRebuilt, None, None]:
        """Rebuild the derived files of the named partitions of one directory."""
        meant = [named.partition for named in home.partitions]
        paths = [partition.path for partition in meant]
        yield from leftovers_named(home.path, paths, self.how, is_applied=self.is_applied)
        evidence = gather_evidence(home.log_dir, meant, with_content=self.is_applied)
        known = topic_settings(home.path, self.guest)
        asks = []
        for named in home.partitions:
            try:
                interval = self.settings.of(known, named.partition.topic, INTERVAL)
            except KafkatoolError as error:
                yield Failure(f"{named.partition.path}: {error}; left as it is")
                continue
            rebuilding = Rebuilding(self.how.now_ms, interval, self.force, named.bases)
            asks.append(RebuildRequest(named, rebuilding))
        parts = yield from plans_of(pool, asks, self.guest, advance)
        yield DirectoryRebuilt(parts, replace(as_plan(home.path, parts), evidence=evidence))
