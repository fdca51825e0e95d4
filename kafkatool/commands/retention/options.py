"""What `retention` can be asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from kafkatool.commands.line.plan_options import PlanOptions
from kafkatool.errors import UsageError


@dataclass(frozen=True, slots=True)
class AskOptions:
    """What is asked for besides the verdicts, and what no disk tells."""

    remote_offset: Annotated[
        int | None,
        typer.Option(
            "--remote-offset",
            metavar="N",
            show_default=False,
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
            show_default=False,
            help="Forecast when segments go and how many bytes stay, if records keep arriving as in the "
            "last DURATION.",
        ),
    ] = None
    free: Annotated[
        str | None,
        typer.Option(
            "--free",
            metavar="SIZE",
            show_default=False,
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
            show_default=False,
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
        """Raises UsageError."""
        only_tell = (self.forecast is not None, self.free is not None)
        modes = (*only_tell, self.purge, self.move_to is not None)
        if sum(modes) > 1 or (plan.apply and any(only_tell)):
            raise UsageError(
                "--forecast, --free, --move-to and --purge go one at a time; the first two only tell"
            )
