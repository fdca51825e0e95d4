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
            "--check-times", help="Read every batch, and say where a time index does not tell its time."
        ),
    ] = False
    forecast: Annotated[
        str | None,
        typer.Option(
            "--forecast",
            metavar="DURATION",
            show_default=False,
            help="When segments go, and bytes over time, if records keep coming as they did for so long.",
        ),
    ] = None
    free: Annotated[
        str | None,
        typer.Option(
            "--free",
            metavar="SIZE",
            show_default=False,
            help="How to free this much: expired data that a time in the future holds back, with the command "
            "to delete it; the smallest changes of settings, with the commands to set and undo.",
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
            "--purge", help="Only unlink .deleted files older than file.delete.delay.ms; no way back."
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
