"""The options of `report`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.options import CommonOptions, ConfigOpt, KafkaVersionOpt, PathOptions, SetOpt
from kafkatool.errors import UsageError

if TYPE_CHECKING:
    from kafkatool.engine.report.gathering import Gathering


class ReportFormat(StrEnum):
    """The output formats."""

    html = "html"
    ndjson = "ndjson"


@dataclass(frozen=True, slots=True)
class JudgedBy:
    """The settings and the time for judging retention and compaction."""

    now: Annotated[
        str | None,
        typer.Option(
            "--at",
            "--now",
            metavar="TIME",
            help="Report as of this time. By default now.",
        ),
    ] = None
    forecast: Annotated[
        str, typer.Option("--forecast", metavar="DURATION", help="How far to forecast: 12h, 7d.")
    ] = "7d"
    config: ConfigOpt = None
    settings: SetOpt = None
    kafka_version: KafkaVersionOpt = None

    def gathering(
        self, where: PathOptions, common: CommonOptions, *, part: float | None, deep: bool
    ) -> Gathering:
        """Return what there is to read. Raises UsageError if there is nothing."""
        from time import time_ns

        from kafkatool.commands.line.arguments import parse_duration, parse_time
        from kafkatool.commands.line.broker_options import BrokerOptions
        from kafkatool.engine.report.gathering import Gathering, GatheringRequest
        from kafkatool.engine.verify.verification import VerifyRequest

        ahead_ms = parse_duration(self.forecast)
        verifying = VerifyRequest(deep=deep, sample=part, guest=common.guest())
        expansion = where.expand()
        broker = BrokerOptions(config=self.config, kafka_version=self.kafka_version)
        clock = time_ns() // 1_000_000
        at_ms = None if self.now is None else parse_time(self.now, clock)
        settings = broker.settings(expansion.named, self.settings)
        now_ms = clock if at_ms is None else at_ms
        run = Gathering(
            expansion.targets, GatheringRequest(now_ms, verifying, settings, ahead_ms, at_ms=at_ms)
        )
        run.summary.failures += expansion.problems
        if not run.places and not run.log_dirs:
            raise UsageError("nothing to report there")
        return run
