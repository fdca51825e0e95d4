"""The completion script for fish."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from kafkatool.commands.completion.words import OptionWords, Takes, Value, Words

_HEAD = """\
# Completion of kafkatool for fish. Written by `kafkatool completion fish`: changes belong there.

# The words of the command that is typed: `ls`, `bench append`.
function __kafkatool_command
    set -l command
    for word in (commandline -opc)[2..]
        if string match -q -- '-*' $word
            continue
        end
        set -a command $word
        if not contains -- "$command" @GROUPS@ help
            break
        end
    end
    echo "$command"
end

function __kafkatool_is
    contains -- (__kafkatool_command) $argv
end

# Files; and for a topic with several partitions all of them at once, as a pattern.
function __kafkatool_paths
    set -l current (commandline -ct | string unescape)
    __fish_complete_path $current
    set -l place (string match -r -- '^.*/' $current)
    set -l real (string replace -r -- '^~/' "$HOME/" "$place")
    set -l directories $real*-*/
    set -l partitions (string match -r -- '[^/]+-[0-9]+/$' $directories)
    string replace -r -- '-[0-9]+/$' '-*' $partitions | sort | uniq -d | while read -l topic
        printf '%s%s\\tall partitions\\n' "$place" $topic
    end
end

# Directories of partitions, deleted ones too, of the log directories on this line.
function __kafkatool_partitions
    for word in (commandline -op)
        set -l directories $word/*-*/
        string match -r -- '[^/]+-[0-9]+(?:\\.[0-9a-f]+-[a-z]+)?(?=/$)' $directories
    end | string replace -r '$' '='
end

complete -c kafkatool -f
"""


def script(words: Words) -> str:
    """Return the whole script."""
    groups = " ".join(group for group in words.groups if group)
    every = {**words.groups[""], "help": "Say more about a command."}
    lines = [
        *_commands("", every),
        *_commands("help", words.groups[""]),
        *(line for name, commands in words.groups.items() if name for line in _commands(name, commands)),
        *_options(words),
        *_arguments(words),
    ]
    return _HEAD.replace("@GROUPS@", groups) + "".join(f"{line}\n" for line in lines)


def _commands(group: str, commands: Mapping[str, str]) -> Iterator[str]:
    for name, text in commands.items():
        yield f"{_line([group])} -a {name} -d {_quoted(text)}"


def _options(words: Words) -> Iterator[str]:
    """Yield a line per option, covering all commands where it takes the same."""
    found: dict[OptionWords, list[str]] = defaultdict(list)
    for command in words.commands:
        for option in command.options:
            found[option].append(command.name)
    for option, commands in found.items():
        names = "".join(f" -l {name[2:]}" if name[:2] == "--" else f" -s {name[1:]}" for name in option.names)
        yield f"{_line(commands)}{names}{_value(option.value)} -d {_quoted(option.help)}"


def _arguments(words: Words) -> Iterator[str]:
    found: dict[Value, list[str]] = defaultdict(list)
    for command in words.commands:
        if command.arguments:
            found[command.arguments[-1]].append(command.name)
    for value, commands in found.items():
        yield _line(commands) + _value(value).replace(" -x", "").replace(" -r", "")


def _line(commands: list[str]) -> str:
    wanted = " ".join(f'"{command}"' for command in commands)
    return f"complete -c kafkatool -n '__kafkatool_is {wanted}'"


def _value(value: Value) -> str:
    if value.takes is Takes.words:
        return f" -x -a {_quoted(' '.join(word + value.ending for word in value.words))}"
    return {
        Takes.flag: "",
        Takes.files: " -r -F",
        Takes.paths: " -a '(__kafkatool_paths)'",
        Takes.partitions: " -x -a '(__kafkatool_partitions)'",
        Takes.anything: " -x",
    }[value.takes]


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
