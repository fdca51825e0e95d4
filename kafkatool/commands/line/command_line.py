"""The order of a help text, and how usage errors are worded."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand

# Every command has these; its help lists them last, after its own options.
SHARED = {
    *("max_rate", "max_errors", "cache", "quiet", "verbose", "no_progress", "debug", "help"),
}


EXIT_CODES = {
    0: "done",
    2: "usage, or nothing matched",
    3: "the job could not be done or finished",
    4: "findings at or above --fail-on",
    5: "refused for safety",
    130: "interrupted",
    141: "the reader of our output went away",
}


def epilog(examples: dict[str, str], *codes: int) -> str:
    """Return the end of a help text: examples (command line -> what it does) and exit codes.

    0, 2, 3, 130 and 141 apply to every command; `codes` are the additional ones.
    """
    lines = ["Examples:", ""]
    for command, meaning in examples.items():
        lines += [f"  # {meaning}", f"  {command}", ""]
    lines += ["Exit codes:", ""]
    lines += [f"  {code:<4} {EXIT_CODES[code]}" for code in sorted({0, 2, 3, 130, 141, *codes})]
    # \b keeps the line breaks.
    return "\b\n" + "\n\n\b\n".join("\n".join(lines).split("\n\n"))


class HelpOrder:
    """Usage, purpose, examples; then the rest, and the exit codes at the end.

    So the first screen has a line to paste. `epilog` holds examples and exit codes, as the function `epilog`
    writes them.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        this: Any = self
        purpose, _, more = (this.help or "").partition("\n\n")
        examples, _, codes = (this.epilog or "").partition("\b\nExit codes:")
        this.format_usage(ctx, formatter)
        _paragraphs(formatter, purpose)
        _section(formatter, "Examples", examples.removeprefix("\b\nExamples:"))
        _paragraphs(formatter, more)
        this.format_options(ctx, formatter)
        _section(formatter, "Exit codes", codes)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options of this command first, then those that all commands have."""
        this: Any = self
        records: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], "Shared options": []}
        for parameter in this.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                records[_place(parameter, is_group=hasattr(this, "commands"))].append(record)
        for title, lines in records.items():
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)
        if hasattr(this, "commands"):
            this.format_commands(ctx, formatter)


def _place(parameter: Any, *, is_group: bool) -> str:
    if parameter.param_type_name == "argument":
        return "Arguments"
    return "Shared options" if parameter.name in SHARED and not is_group else "Options"


def _paragraphs(formatter: Any, text: str) -> None:
    if text.strip():
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text)


def _section(formatter: Any, title: str, text: str) -> None:
    if text.strip("\b\n"):
        with formatter.section(title):
            formatter.write_text(text.strip("\n").replace("\n  ", "\n"))


class Command(HelpOrder, TyperCommand):
    """A command that does something itself, not a group."""


def leaves(group: Any) -> dict[str, Any]:
    """Return every command that is not a group, by its full name: `bench append`."""
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        inner = leaves(command) if hasattr(command, "commands") else {"": command}
        found.update({f"{name} {rest}".strip(): one for rest, one in inner.items()})
    return found


def complaint(error: Any) -> str:
    """Reword a usage error of Typer: what is wrong, what was perhaps meant, where to read more."""
    text = error.format_message().partition(" (Possible options:")[0].rstrip(".?")
    text, _, meant = text.replace("valid int range", "whole number").partition(". Did you mean ")
    words, meant = f"{text[0].lower()}{text[1:]}", meant or _meant(error)
    context = getattr(error, "ctx", None)
    manual = "" if context is None else f"see {context.command_path} --help"
    return f"{words}; did you mean {meant}? {manual}".rstrip() if meant else f"{words}; {manual}".rstrip("; ")


def _meant(error: Any) -> str:
    """Return the option or value nearest to what was typed, quoted; empty if none is near."""
    typed, known = getattr(error, "option_name", ""), []
    if typed and error.ctx is not None:
        known = [name for parameter in error.ctx.command.get_params(error.ctx) for name in parameter.opts]
    choices = getattr(getattr(getattr(error, "param", None), "type", None), "choices", None)
    quoted = re.match(r"'([^']*)'", error.message or "")
    if choices and quoted:
        typed, known = quoted[1], [str(choice) for choice in choices]
    from kafkatool.errors import nearest

    near = nearest(typed, known)
    return "" if near is None else f"'{near}'"
