"""What a part of a command says elsewhere, to be said here in its turn."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkatool.commands.screen.talk import Talk


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
