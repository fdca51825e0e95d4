"""`--spark`: the same command on a Spark cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkatool.commands.screen.talk import Talk
from kafkatool.errors import UsageError

if TYPE_CHECKING:
    from kafkatool.engine.jobs.worker_pool import Workers

Advance = Callable[[int], None]
RunningPool = AbstractContextManager[tuple["Workers", Advance]]
"""Workers to run on, and a function to report finished bytes to."""

SparkOpt = Annotated[
    str | None,
    typer.Option(
        "--spark",
        metavar="MASTER",
        help="Run on this Spark master: local[*], local-cluster[N,CORES,MB], spark://HOST:PORT (yarn, "
        "k8s://: untested).",
    ),
]
MasterOpt = Annotated[
    str,
    typer.Option(
        "--spark",
        metavar="MASTER",
        help="Spark master: local[*], local-cluster[N,CORES,MB], spark://HOST:PORT (yarn, k8s://…: "
        "untested).",
    ),
]
"""For commands that only run on Spark."""
EMBEDDED = "local[*]"
ConfOpt = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="Spark setting, for example its memory."),
]


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Where a job runs, if not in processes on this machine."""

    spark: SparkOpt = None
    conf: ConfOpt = None

    @contextmanager
    def workers(
        self, jobs: int, most: int | None, talk: Talk, label: str, total: int | None
    ) -> Iterator[tuple[Workers, Advance]]:
        """Yield a pool to run on, and a function to report finished bytes to."""
        if self.spark is None:
            if self.conf:
                raise UsageError("--conf is for Spark; give --spark too")
            from kafkatool.engine.jobs.worker_pool import workers

            # The pool comes first: processes must be forked before any thread starts.
            with workers(jobs, most) as pool, talk.progress(label, total) as advance:
                yield pool, advance
            return
        from kafkatool.spark.workers import SparkWorkers

        with (
            self.session(self.spark, talk) as session,
            talk.progress(label, total) as advance,
            SparkWorkers(session, advance) as on_spark,
        ):
            yield on_spark, _nobody

    @contextmanager
    def session(self, master: str, talk: Talk) -> Iterator[Any]:
        """Yield a Spark session. Raises KafkatoolError if there can be none."""
        from kafkatool.spark.session import open_session

        with open_session(master, self.settings(), talk.note) as session:
            yield session

    def settings(self) -> dict[str, str]:
        """Parse --conf. Raises UsageError."""
        found = {}
        for text in self.conf or ():
            key, equals, value = text.partition("=")
            if not equals or not key.startswith("spark."):
                raise UsageError(f"--conf {text!r} is not spark.NAME=VALUE")
            found[key] = value
        return found


def _nobody(_size: int) -> None:
    """No-op: Spark's own tasks report their progress."""
