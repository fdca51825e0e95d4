"""What a shell can complete, read from the commands themselves: the same for bash, zsh and fish."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

# The metavar of an option in its help decides how its value is completed.
_FILES = {"FILE", "DIR", "PATH", "JOURNAL", "LAKE", "PART", "OLDER", "A.json", "B.json"}
_PATHS = {"PATH...", "ROOT..."}


class Takes(StrEnum):
    """What follows an option, or is an argument."""

    flag = "flag"
    words = "words"
    files = "files"
    paths = "paths"
    """Files, and all partitions of a topic at once."""
    partitions = "partitions"
    """Directories of partitions, in the log directories on the same line."""
    anything = "anything"


@dataclass(frozen=True, slots=True)
class Value:
    takes: Takes
    words: tuple[str, ...] = ()
    ending: str = ""
    """What directly follows a word, instead of a blank."""


@dataclass(frozen=True, slots=True)
class OptionWords:
    names: tuple[str, ...]
    help: str
    value: Value
    is_repeated: bool


@dataclass(frozen=True, slots=True)
class CommandWords:
    name: str
    options: tuple[OptionWords, ...]
    arguments: tuple[Value, ...]
    """In order; the last one applies to all further arguments."""


@dataclass(frozen=True, slots=True)
class Words:
    """Everything: groups and commands with their summaries, and what each command takes."""

    groups: dict[str, dict[str, str]]
    """By name, with their commands; the top level has an empty name."""
    commands: tuple[CommandWords, ...]


def words_of(root: Any, leaves: dict[str, Any]) -> Words:
    """Return the words of this program."""
    groups = {"": root.summaries}
    for name, command in root.commands.items():
        if hasattr(command, "commands"):
            groups[name] = command.summaries
    return Words(groups, tuple(_command(name, command) for name, command in leaves.items()))


def _command(name: str, command: Any) -> CommandWords:
    options, arguments = [], []
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            arguments.append(_value(parameter))
        else:
            names = (*parameter.opts, *parameter.secondary_opts)
            options.append(OptionWords(names, parameter.help, _value(parameter), parameter.multiple))
    options.append(OptionWords(("-h", "--help"), "Show this message and exit.", Value(Takes.flag), False))
    return CommandWords(name, tuple(options), tuple(arguments))


def _value(parameter: Any) -> Value:
    metavar = parameter.metavar or ""
    if getattr(parameter, "is_flag", False):
        return Value(Takes.flag)
    if hasattr(parameter.type, "choices"):
        return Value(Takes.words, tuple(map(str, parameter.type.choices)))
    if "--set" in parameter.opts:
        return Value(Takes.words, _settings(), "=")
    if "--rename" in parameter.opts:
        return Value(Takes.partitions, ending="=")
    # Words separated by bars; those in capitals are placeholders.
    if metavar[:1].islower() or "|" in metavar:
        return Value(Takes.words, tuple(word for word in metavar.split("|") if not word.isupper()))
    if metavar in _PATHS:
        return Value(Takes.paths)
    return Value(Takes.files if metavar in _FILES else Takes.anything)


def _settings() -> tuple[str, ...]:
    from kafkatool.engine.cluster.topic_config import keys_of
    from kafkatool.format.release import NEWEST

    return tuple(sorted(keys_of(NEWEST)))
