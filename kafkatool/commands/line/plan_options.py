"""Options of the commands that plan changes and can apply them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.options import PathOptions, SetOpt
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import Format
from kafkatool.errors import UsageError

if TYPE_CHECKING:
    from kafkatool.engine.plan.steps import Applying

ApplyOpt = Annotated[
    bool, typer.Option("--apply", help="Carry out the plan. Without this nothing is changed.")
]
OfflineOpt = Annotated[
    bool,
    typer.Option("--offline", help="I confirm that no broker on any host uses this directory."),
]
BackupDirOpt = Annotated[
    str | None,
    typer.Option(
        "--backup-dir",
        metavar="DIR",
        help="Keep the originals and the journal in this directory, on any volume, instead of beside the "
        "files. With --undo: a directory outside the log directory from which the journal may restore "
        "files.",
    ),
]
UndoOpt = Annotated[
    str | None,
    typer.Option(
        "--undo",
        metavar="JOURNAL",
        help="Show how to reverse an applied plan; with --apply, reverse it.",
    ),
]


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """Whether and how a plan is applied."""

    apply: ApplyOpt = False
    offline: OfflineOpt = False
    backup_dir: BackupDirOpt = None
    undo: UndoOpt = None

    def applying(self, now_ms: int) -> Applying:
        from kafkatool.engine.plan.steps import Applying

        return Applying(now_ms, self.offline, self.backup_dir)

    def undo_instead(
        self, where: PathOptions, command: str, speak: Talk, fmt: Format, moved_to: str | None = None
    ) -> bool:
        """Undo what a journal lists if --undo was given, and return whether it was."""
        from kafkatool.commands.rows.plans import UndoRequest, undo_journal

        if self.undo is None:
            return False
        if where.paths or where.files_from:
            raise UsageError("--undo takes no PATH: the journal says what was changed")
        outside = [one for one in (self.backup_dir, moved_to) if one is not None]
        undo_journal(UndoRequest(self.undo, command, outside, self.offline, self.apply), speak, fmt)
        return True


@dataclass(frozen=True, slots=True)
class PlanOptions(ChangeOptions):
    """Change options, for plans that depend on settings."""

    settings: SetOpt = None
