"""One run of `cache-map`: how it reads and writes, and what went wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from kafkatool.commands.cache_map.options import CacheChangeOptions, MapFormat
from kafkatool.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from kafkatool.commands.screen.talk import Talk
    from kafkatool.engine.cache.planning import CacheAction
    from kafkatool.engine.cache.residents import Notes
    from kafkatool.engine.directory.targets import Target
    from kafkatool.engine.files.source import Guest


class Looking:
    """One run of the command: how it reads and writes, and what went wrong."""

    def __init__(
        self, guest: Guest, talk: Talk, fmt: MapFormat, raw: bool, limit: int | None, width: int
    ) -> None:
        from kafkatool.engine.cache.residents import Notes

        self.guest, self.talk, self.fmt, self.raw, self.limit = guest, talk, fmt, raw, limit
        self.width = width or _terminal_width()
        self.lags: dict[str, int] = {}
        self.groups = False
        self.failures: list[str] = []
        self.refused = False
        self.notes: Notes = Notes()

    def exit_code(self) -> ExitCode:
        """Report what could not be done, and return the exit code for it."""
        vanished = self.notes.vanished
        if vanished:
            more = f" and {len(vanished) - 1} more" if len(vanished) > 1 else ""
            self.talk.note(f"{vanished[0]}{more}: vanished meanwhile")
        if self.notes.untold:
            from kafkatool.engine.files.residency import NOT_TOLD

            self.talk.warn(f"{self.notes.untold} files: {NOT_TOLD}; run as the broker's user, or root")
        for failure in [*self.failures, *self.notes.failures]:
            self.talk.warn(failure)
        if self.refused:
            return ExitCode.REFUSED
        return ExitCode.FAILED if self.failures or self.notes.failures or self.notes.untold else ExitCode.OK

    def draw(self, targets: list[Target]) -> None:
        from kafkatool.commands.rows.cache_picture import draw_html, draw_svg
        from kafkatool.commands.screen.terminal_text import guarded
        from kafkatool.commands.screen.values import stdout
        from kafkatool.engine.cache.residents import map_targets

        draw = draw_html if self.fmt is MapFormat.html else draw_svg
        found = islice(map_targets(targets, self.guest, self.notes), self.limit)
        guarded(stdout()).writelines(draw(found, self.guest))

    # --- warm and evict -------------------------------------------------------------------------------

    def change(self, targets: list[Target], action: CacheAction, wanted: CacheChangeOptions) -> None:
        """Show the plan for every partition, or apply it."""
        from kafkatool.commands.rows.cache import DONE_COLUMNS, PIECE_COLUMNS
        from kafkatool.commands.screen.table import rows
        from kafkatool.commands.screen.values import Format

        if self.fmt not in (MapFormat.table, MapFormat.ndjson):
            raise UsageError("a plan is written as a table or NDJSON")
        fmt = Format.ndjson if self.fmt is MapFormat.ndjson else Format.table
        with rows(fmt, DONE_COLUMNS if wanted.apply else PIECE_COLUMNS, raw=self.raw) as out:
            for row in self._changes(targets, action, wanted):
                out.write(row)
        if not wanted.apply:
            self.talk.note("nothing was changed; --apply carries it out")

    def _changes(
        self, targets: list[Target], action: CacheAction, wanted: CacheChangeOptions
    ) -> Iterator[dict[str, Any]]:
        from kafkatool.commands.rows.cache import piece_row
        from kafkatool.engine.cache import planning
        from kafkatool.engine.cache.residents import map_targets

        budget = planning.free_memory()
        within, last_size = wanted.range(), wanted.last_size()
        for mapped in map_targets(targets, self.guest, self.notes):
            meant = planning.bounds(mapped, within, last_size, self.guest)
            pieces = planning.plan(mapped, action, meant, budget)
            if action is planning.CacheAction.WARM:
                budget -= sum(piece.size for piece in pieces)
            self._tell_refused(pieces, wanted.apply)
            if wanted.apply:
                for done in planning.apply(pieces, self.guest):
                    yield piece_row(done.piece, done)
            else:
                yield from map(piece_row, pieces)

    def _tell_refused(self, pieces: list[Any], is_applied: bool) -> None:
        for piece in pieces:
            if piece.why.startswith("active"):
                self.refused = self.refused or is_applied
                self.talk.warn(f"{piece.file}: {piece.why}")


def _terminal_width() -> int:
    import shutil

    return shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else 80
