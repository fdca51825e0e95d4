"""Opened logs: their partitions, and queries for their contents."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkatool.engine.directory.log_dir import Partition
from kafkatool.engine.directory.selection import Selection
from kafkatool.engine.directory.targets import Target, expand
from kafkatool.engine.directory.topic_names import real_topic_name
from kafkatool.engine.files.source import Guest
from kafkatool.engine.records.subject import subjects_of
from kafkatool.errors import UsageError, nearest
from kafkatool.library.batch_query import BatchQuery
from kafkatool.library.reading import Bound, NamedSubject, OnTrouble, ReadPlan, log, read_range
from kafkatool.library.record_query import RecordQuery

if TYPE_CHECKING:
    from kafkatool.engine.verify.finding import Finding


def open(*paths: str | os.PathLike[str]) -> KafkaLogs:
    """Open logs read-only. Paths are those that the command line accepts, globs included.

    Raises UsageError if a path does not exist, KafkatoolError if it cannot be listed.
    """
    return KafkaLogs(expand([os.fspath(path) for path in paths], allow_stdin=False).targets)


class KafkaLogs:
    """Partitions as they were when they were listed. No file is kept open."""

    def __init__(self, targets: list[Target]) -> None:
        self._targets = targets
        self._guest = Guest()
        found = Selection(targets, self._guest)
        for problem in found.problems:
            log.warning("%s", problem)
        self._subjects = tuple(
            NamedSubject(self._topic(subject.partition), subject)
            for subject in subjects_of(found.homes, chosen_high_watermark=None)
        )

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The partitions with their segments and files, from names and sizes alone."""
        return tuple(named.subject.partition for named in self._subjects)

    def records(
        self,
        topic: str | None = None,
        partition: int | None = None,
        start: Bound = None,
        end: Bound = None,
        *,
        committed: bool = True,
        on_damage: OnTrouble = "fail",
    ) -> RecordQuery:
        """Return what a read_committed consumer gets, or every record with `committed=False`.

        `start` is inclusive and `end` exclusive, each an offset or a time. Damage raises DamagedLog, or is
        logged and skipped with `on_damage="skip"`.
        """
        return RecordQuery(self._plan(topic, partition, start, end, on_damage), committed)

    def batches(
        self,
        topic: str | None = None,
        partition: int | None = None,
        start: Bound = None,
        end: Bound = None,
        *,
        on_damage: OnTrouble = "fail",
    ) -> BatchQuery:
        """Return the batches with an offset in the range, or with their greatest timestamp in it."""
        return BatchQuery(self._plan(topic, partition, start, end, on_damage))

    def findings(self, *, deep: bool = False, jobs: int = 1) -> Iterator[Finding]:
        """Check every batch and every side file, as `kafkatool verify` does; `deep` decodes every record.

        More than one job starts processes: do so before the program starts threads.
        """
        from kafkatool.engine.jobs.worker_pool import workers
        from kafkatool.engine.verify.verification import Verification, VerifyRequest

        verification = Verification(self._targets, VerifyRequest(deep, guest=self._guest))
        with workers(jobs, verification.most_workers) as pool:
            yield from verification.findings(pool)
        for failure in verification.summary.failures:
            log.warning("%s", failure)

    def __repr__(self) -> str:
        return f"<KafkaLogs: {len(self._subjects)} partitions>"

    def _topic(self, partition: Partition) -> str | None:
        real = real_topic_name(partition.path, self._guest) if partition.topic_may_be_cut else None
        return real or partition.topic

    def _plan(
        self, topic: str | None, partition: int | None, start: Bound, end: Bound, on_damage: OnTrouble
    ) -> ReadPlan:
        if on_damage not in ("fail", "skip"):
            raise UsageError(f"on_damage={on_damage!r}: 'fail' or 'skip'")
        meant = tuple(
            named
            for named in self._subjects
            if topic in (None, named.topic) and partition in (None, named.partition)
        )
        if not meant:
            raise UsageError(self._nothing(topic, partition))
        return ReadPlan(meant, read_range(start, end), on_damage, self._guest)

    def _nothing(self, topic: str | None, partition: int | None) -> str:
        topics = {named.topic for named in self._subjects if named.topic is not None}
        if topic is None or topic in topics:
            return f"no partition {partition} of {topic or 'any topic'} is here"
        near = nearest(topic, topics)
        return f"no topic {topic!r} is here" + ("" if near is None else f"; did you mean {near!r}?")
