"""When an incremental check rereads data that seems unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.errors import UsageError

if TYPE_CHECKING:
    from kafkatool.engine.verify.rechecking import Recheck

NEVER = "never"


@dataclass(frozen=True, slots=True)
class RecheckOptions:
    """Bit rot changes neither the size nor the time of a file, so known segments are reread in turn."""

    recheck_older_than: Annotated[
        str | None,
        typer.Option(
            "--recheck-older-than",
            metavar="DURATION",
            help="Read an unchanged segment again if it was last read this long ago. Default 30d; 0s reads "
            "all, never none.",
        ),
    ] = None
    recheck_share: Annotated[
        str | None,
        typer.Option(
            "--recheck-share",
            metavar="SHARE",
            help="In each run also reread this share of the unchanged bytes, the ones read longest ago "
            "first. Default 4%; 0 for none. What was read in the last 12 hours is skipped.",
        ),
    ] = None

    @property
    def is_given(self) -> bool:
        return self.recheck_older_than is not None or self.recheck_share is not None

    def recheck(self, now_ms: int) -> Recheck:
        """Return the options as values; `now_ms` is the current time. Raises UsageError."""
        from kafkatool.engine.verify.rechecking import Recheck

        return Recheck(now_ms, self._older_than_ms(), self._share())

    def _older_than_ms(self) -> int | None:
        from kafkatool.commands.line.arguments import parse_duration
        from kafkatool.engine.verify.rechecking import OLDER_THAN_MS

        if self.recheck_older_than is None:
            return OLDER_THAN_MS
        return None if self.recheck_older_than == NEVER else parse_duration(self.recheck_older_than)

    def _share(self) -> float:
        from kafkatool.commands.line.options import share
        from kafkatool.engine.verify.rechecking import SHARE

        if self.recheck_share is None:
            return SHARE
        if self.recheck_share in ("0", "0%"):
            return 0.0
        try:
            return share(self.recheck_share)
        except UsageError as error:
            raise UsageError(str(error).replace("--sample", "--recheck-share")) from None
