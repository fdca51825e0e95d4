"""The options of `retention`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.broker_options import BrokerOptions
from kafkatool.commands.line.plan_options import PlanOptions
from kafkatool.errors import UsageError

if TYPE_CHECKING:
    from kafkatool.engine.retention.logs import RetentionRequest


@dataclass(frozen=True, slots=True)
class AskOptions:
    """What to show besides the verdicts, and facts that are not on the disk."""

    remote_offset: Annotated[
        int | None,
        typer.Option(
            "--remote-offset",
            metavar="N",
            help="Highest offset in remote storage, for one partition of a tiered topic, instead of what "
            "__remote_log_metadata says.",
        ),
    ] = None
    check_times: Annotated[
        bool,
        typer.Option(
            "--check-times", help="Read every batch, and report where a time index misses its time."
        ),
    ] = False
    forecast: Annotated[
        str | None,
        typer.Option(
            "--forecast",
            metavar="DURATION",
            help="Forecast when segments go and how many bytes stay, if records keep arriving as in the "
            "last DURATION.",
        ),
    ] = None
    free: Annotated[
        str | None,
        typer.Option(
            "--free",
            metavar="SIZE",
            help="Show how to free this much: expired data held back by a time in the future, with the "
            "command to delete it; then the smallest setting changes, with the commands to make and "
            "revert them.",
        ),
    ] = None
    move_to: Annotated[
        str | None,
        typer.Option(
            "--move-to",
            metavar="DIR",
            help="Move segments to DIR/TOPIC-PARTITION/ instead of renaming them to .deleted.",
        ),
    ] = None
    purge: Annotated[
        bool,
        typer.Option(
            "--purge",
            help="Only remove .deleted files older than file.delete.delay.ms. This cannot be undone.",
        ),
    ] = False

    def refuse_nonsense(self, plan: PlanOptions) -> None:
        """Check that the options fit together. Raises UsageError."""
        only_tell = (self.forecast is not None, self.free is not None)
        modes = (*only_tell, self.purge, self.move_to is not None)
        if sum(modes) > 1 or (plan.apply and any(only_tell)):
            raise UsageError(
                "--forecast, --free, --move-to and --purge exclude each other; the first two only show"
            )

    def judging(self, plan: PlanOptions, broker: BrokerOptions, now_ms: int) -> RetentionRequest:
        """Return the time of the check, and facts that are not on the disk. Raises UsageError."""
        from kafkatool.engine.retention.logs import RetentionRequest

        watermark, at_log_end = broker.watermark()
        moment_ms = broker.moment(now_ms)
        if plan.apply and moment_ms > now_ms:
            raise UsageError("--at a future time only shows what would happen; --apply does what is due now")
        return RetentionRequest(moment_ms, watermark, at_log_end, self.remote_offset, self.check_times)

    def refuse_many(self, judging: RetentionRequest, partitions: int) -> None:
        """Check that options for a single partition are not used for several. Raises UsageError."""
        if self.remote_offset is not None and partitions != 1:
            raise UsageError("--remote-offset takes one partition")
        if judging.high_watermark is not None and partitions != 1:
            raise UsageError("--high-watermark N takes one partition")

    def duration_ms(self) -> int:
        """Parse --forecast. Raises UsageError if it is too short."""
        from kafkatool.commands.line.arguments import parse_duration
        from kafkatool.engine.retention.run import STEPS

        found = parse_duration(str(self.forecast))
        if found < STEPS:
            raise UsageError(f"--forecast {self.forecast}: too short")
        return found

    def wanted(self) -> int:
        """Parse the bytes to free. Raises UsageError."""
        from kafkatool.commands.line.arguments import parse_size

        found = parse_size(str(self.free))
        if not found:
            raise UsageError(f"--free {self.free}: that is nothing")
        return found
