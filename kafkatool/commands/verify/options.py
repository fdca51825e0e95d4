"""The options of `verify`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.options import CommonOptions, SampleOpt, share
from kafkatool.commands.line.recheck_options import RecheckOptions
from kafkatool.errors import Refused, UsageError

if TYPE_CHECKING:
    from kafkatool.engine.verify.state_file import Scrub


@dataclass(frozen=True, slots=True)
class VerifyOptions(CommonOptions):
    verbose: Annotated[
        bool,
        typer.Option(
            "-v", "--verbose", help="Show every finding, including notes, instead of one line per partition."
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How much is read, and what is remembered of it."""

    deep: Annotated[bool, typer.Option("--deep", help="Decompress every batch and decode every record.")] = (
        False
    )
    sample: SampleOpt = None
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="FILE",
            help="Remember in FILE what was found good, and when. Closed segments that have not changed "
            "since are skipped until they are due to be read again.",
        ),
    ] = None

    def share(self, rechecking: RecheckOptions) -> float | None:
        """Return the share of the data to read. Raises UsageError if the options do not fit together."""
        part = None if self.sample is None else share(self.sample)
        if self.state is not None and part is not None:
            raise UsageError("--state remembers whole segments, --sample reads parts of them: choose one")
        if self.state is None and rechecking.is_given:
            raise UsageError("--recheck-older-than and --recheck-share are about what --state remembers")
        return part

    def scrub(self, rechecking: RecheckOptions) -> Scrub | None:
        """Return the state file of a nightly check. Raises Refused if it lies in a log directory."""
        if self.state is None:
            return None
        from time import time_ns

        from kafkatool.engine.verify.state_file import Scrub, lies_in_a_log_dir

        if lies_in_a_log_dir(self.state):
            raise Refused(f"{self.state}: --state lies in a log directory; put it somewhere else")
        return Scrub(self.state, rechecking.recheck(time_ns() // 1_000_000), deep=self.deep)
