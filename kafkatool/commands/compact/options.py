"""The options of `compact`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.broker_options import BrokerOptions
from kafkatool.commands.line.plan_options import PlanOptions
from kafkatool.commands.line.spark_options import SparkOptions
from kafkatool.errors import UsageError

if TYPE_CHECKING:
    from kafkatool.engine.compaction.partition_run import CompactionRequest


@dataclass(frozen=True, slots=True)
class PassOptions:
    """How much is cleaned, and what is done with the result."""

    passes: Annotated[
        int | None,
        typer.Option("--passes", metavar="N", min=1, help="Number of passes; 1 by default."),
    ] = None
    until_stable: Annotated[
        bool, typer.Option("--until-stable", help="Repeat passes until nothing is left to clean.")
    ] = False
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="KEY",
            help="Show only what happens to each record of this key: text, hex:… or base64:…",
        ),
    ] = None
    top: Annotated[
        int | None,
        typer.Option(
            "--top",
            metavar="N",
            min=1,
            help="Show only the N keys and key prefixes that lose the most records.",
        ),
    ] = None
    write_to: Annotated[
        str | None,
        typer.Option(
            "--write-to",
            metavar="DIR",
            help="Write the compacted partitions to DIR/TOPIC-PARTITION/.",
        ),
    ] = None

    memory: Annotated[
        str,
        typer.Option(
            "--memory",
            metavar="SIZE",
            help="Memory for the key map, 40 bytes per key. If it is not enough, keys are processed in "
            "parts: with --spark on all executors, otherwise one after the other.",
        ),
    ] = "1G"

    def refuse_nonsense(self, plan: PlanOptions, broker: BrokerOptions, where_to_run: SparkOptions) -> None:
        """Check that the options fit together. Raises UsageError."""
        if self.passes and self.until_stable:
            raise UsageError("--passes and --until-stable exclude each other")
        if sum((plan.apply, self.write_to is not None, self.key is not None, self.top is not None)) > 1:
            raise UsageError("--apply, --write-to, --key and --top exclude each other")
        if plan.apply and broker.at is not None:
            raise UsageError("--at only shows what would happen; --apply uses the current time")
        if plan.apply and where_to_run.spark is not None:
            raise UsageError("--spark only shows plans and writes copies; leave it out with --apply")

    def request(self, plan: PlanOptions, broker: BrokerOptions, named: Sequence[str]) -> CompactionRequest:
        """Return the request for the engine. Raises UsageError."""
        from kafkatool.commands.line.arguments import parse_bytes, parse_size
        from kafkatool.commands.rows.plans import now_ms
        from kafkatool.engine.compaction.partition_run import CompactionRequest

        now = now_ms()
        watermark, at_log_end = broker.watermark()
        return CompactionRequest(
            broker.settings(named, plan.settings),
            plan.applying(now),
            plan.apply,
            None if broker.at is None else broker.moment(now),
            watermark,
            at_log_end,
            most=None if self.until_stable else self.passes or 1,
            key=None if self.key is None else parse_bytes(self.key),
            top=self.top,
            write_to=self.write_to,
            memory=parse_size(self.memory),
        )
