"""The options of `doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.options import CommonOptions, SampleOpt, share

if TYPE_CHECKING:
    from kafkatool.engine.doctor.brokers import Broker
    from kafkatool.engine.doctor.examination import DoctorRequest
    from kafkatool.engine.files.source import Guest


@dataclass(frozen=True, slots=True)
class DoctorOptions(CommonOptions):
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show every finding, including notes.")] = (
        False
    )


@dataclass(frozen=True, slots=True)
class ExaminationOptions:
    """For which host and user, with which limits, and how much is read."""

    user: Annotated[
        str | None,
        typer.Option(
            "--user",
            metavar="USER",
            help="User that the broker runs as, by name or number. By default the owner of the log "
            "directory.",
        ),
    ] = None
    elsewhere: Annotated[
        bool,
        typer.Option(
            "--elsewhere", help="This is not the broker's host: do not check user, limits, volumes and speed."
        ),
    ] = False
    nofile: Annotated[
        int | None,
        typer.Option(
            "--nofile",
            metavar="N",
            min=1,
            help="The broker's limit of open files. By default that of the running broker, or of this shell.",
        ),
    ] = None
    max_map_count: Annotated[
        int | None,
        typer.Option(
            "--max-map-count",
            metavar="N",
            min=1,
            help="vm.max_map_count of the broker's host. By default that of this host.",
        ),
    ] = None
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Do not scan logs. It is then not known what a start would truncate."),
    ] = False
    sample: SampleOpt = None

    def request(self, guest: Guest, brokers: Sequence[Broker]) -> DoctorRequest:
        """Return the request for the examination of one of these brokers. Raises UsageError."""
        from time import time_ns

        from kafkatool.engine.doctor.examination import DoctorRequest

        return DoctorRequest(
            now_ms=time_ns() // 1_000_000,
            guest=guest,
            user=self.user,
            sample=None if self.sample is None else share(self.sample),
            is_quick=self.quick,
            is_elsewhere=self.elsewhere,
            nofile=self.nofile,
            max_map_count=self.max_map_count,
            beside=[log_dir for one in brokers for log_dir in one.log_dirs],
        )
