"""What a part of a command says and writes elsewhere, to be said and written here in its turn."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkatool.commands.screen.table import Rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import Row


@dataclass(frozen=True, slots=True)
class RecordedTalk(Talk):
    """Says nothing yet."""

    said: list[tuple[str, str]] = field(default_factory=list)

    def warn(self, message: str) -> None:
        self.said.append(("warn", message))

    def note(self, message: str) -> None:
        self.said.append(("note", message))

    def detail(self, message: str) -> None:
        self.said.append(("detail", message))

    def heading(self, message: str) -> None:
        self.said.append(("heading", message))

    def say_to(self, talk: Talk) -> None:
        for how, message in self.said:
            getattr(talk, how)(message)


@dataclass(slots=True)
class RecordedRows:
    """Writes nothing yet."""

    rows: list[Row] = field(default_factory=list)

    def write(self, row: Row) -> None:
        self.rows.append(row)

    def close(self) -> None:
        """There is nothing to finish."""

    def write_to(self, out: Rows) -> None:
        for row in self.rows:
            out.write(row)
