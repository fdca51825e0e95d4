"""The options of `set-aside`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.errors import UsageError

if TYPE_CHECKING:
    from kafkatool.engine.repair.run import SetAsideRequest


@dataclass(frozen=True, slots=True)
class SetAsideOptions:
    """Where the partitions go, and what proves that nothing is lost."""

    move_to: Annotated[
        str | None,
        typer.Option(
            "--move-to",
            metavar="DIR",
            help="Directory to move the partitions to, on any volume.",
        ),
    ] = None
    describe: Annotated[
        str | None,
        typer.Option(
            "--describe",
            metavar="FILE",
            help="Output of kafka-topics.sh --describe, taken while the broker is down; - is standard input.",
        ),
    ] = None
    metadata: Annotated[
        str | None,
        typer.Option(
            "--metadata",
            metavar="PATH",
            help="Instead of --describe: the metadata log of a controller that kept running without the "
            "broker.",
        ),
    ] = None
    second_copy: Annotated[
        str | None,
        typer.Option(
            "--second-copy",
            metavar="DIR",
            help="Another copy of the partition, in a log directory of the same broker. It stays and must "
            "have every batch; the rest of the cluster is not considered.",
        ),
    ] = None
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Proceed even if acknowledged records may be lost."),
    ] = False

    def request(self, now_ms: int, *, is_applied: bool) -> SetAsideRequest:
        """Return the request for the engine. Raises UsageError."""
        from kafkatool.engine.repair.run import SetAsideRequest

        if self.move_to is None:
            raise UsageError("set-aside needs --move-to: the directory that the partitions go to")
        return SetAsideRequest(
            self.move_to,
            now_ms,
            self.describe,
            self.metadata,
            self.second_copy,
            accepts_loss=self.accept_loss,
            is_applied=is_applied,
        )
