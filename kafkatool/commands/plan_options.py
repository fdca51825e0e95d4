"""Options of the commands that plan changes, and may carry them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.options import PathOptions, SetOpt
from kafkatool.commands.render import Format, Talk
from kafkatool.errors import UsageError

if TYPE_CHECKING:
    from kafkatool.engine.plan import Applying

ApplyOpt = Annotated[bool, typer.Option("--apply", help="Do it; without this nothing is changed.")]
OfflineOpt = Annotated[
    bool,
    typer.Option("--offline", help="No broker uses this directory, I know, from no other host either."),
]
BackupDirOpt = Annotated[
    str | None,
    typer.Option(
        "--backup-dir",
        metavar="DIR",
        show_default=False,
        help="Keep originals and the journal here, on any volume, instead of beside the files.",
    ),
]
UndoOpt = Annotated[
    str | None,
    typer.Option(
        "--undo",
        metavar="JOURNAL",
        show_default=False,
        help="Show how to reverse what was applied, and with --apply reverse it.",
    ),
]


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Whether and how a plan is carried out."""

    apply: ApplyOpt = False
    offline: OfflineOpt = False
    backup_dir: BackupDirOpt = None
    undo: UndoOpt = None
    settings: SetOpt = None

    def applying(self, now_ms: int) -> Applying:
        from kafkatool.engine.plan import Applying

        return Applying(now_ms, self.offline, self.backup_dir)

    def undo_instead(self, where: PathOptions, command: str, speak: Talk, fmt: Format) -> bool:
        """Reverse what a journal says, if that was asked for; then there is nothing else to do."""
        from kafkatool.commands.plan_rows import undo_journal

        if self.undo is None:
            return False
        if where.paths or where.files_from:
            raise UsageError("--undo takes no PATH: the journal knows what was changed")
        undo_journal(self.undo, command, speak, fmt, offline=self.offline, do_apply=self.apply)
        return True
