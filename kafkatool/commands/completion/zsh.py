"""The completion script for zsh."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkatool.commands.completion.words import CommandWords, OptionWords, Takes, Value, Words

_HEAD = """\
#compdef kafkatool
# Completion of kafkatool for zsh. Written by `kafkatool completion zsh`: changes belong there.

# Files; and for a topic with several partitions all of them at once, as a pattern.
_kafkatool_paths() {
    _alternative 'files:file:_files' 'topics:all partitions of a topic:_kafkatool_topics'
}

_kafkatool_topics() {
    local typed= place partition topic
    local -A count
    local -a found
    if [[ $PREFIX == */* ]]; then typed=${PREFIX%/*}/; fi
    place=${${(Q)typed}/#\\~\\//$HOME/}
    for partition in $place*-<->(N/); do
        topic=${${partition:t}%-*}
        if (( ++count[$topic] == 2 )); then found+=("$topic-*"); fi
    done
    # With the matcher of files, so that what is common to both is completed first.
    compadd -M 'r:|/=* r:|=*' -p "$typed" -d found -- $found
}

# Directories of partitions, deleted ones too, of the log directories on this line.
_kafkatool_partitions() {
    local word
    local -a found
    for word in ${(Q)words[2,-1]}; do
        found+=($word/*-<->(N/:t) $word/*-<->.*-*(N/:t))
    done
    compadd -S = -- $found
}

_kafkatool_settings() {
    compadd -S = -- @SETTINGS@
}

_kafkatool() {
    local command=${words[2]}
    local -a commands
    if (( CURRENT == 2 )) || [[ $command == help && $CURRENT == 3 ]]; then
        commands=(
@EVERY@        )
        _describe command commands
        return
    fi
    case $command in
@GROUPS@    esac
    shift words
    (( CURRENT -= 1 ))
    case $command in
"""
_TAIL = """\
    esac
}

if [[ ${funcstack[1]} == _kafkatool ]]; then
    _kafkatool "$@"
else
    compdef _kafkatool kafkatool
fi
"""
_GROUP = """\
    (@NAME@)
        if (( CURRENT == 3 )); then
            commands=(
@LIST@            )
            _describe command commands
            return
        fi
        command+=" ${words[3]}"
        shift words
        (( CURRENT -= 1 )) ;;
"""


def script(words: Words) -> str:
    """Return the whole script."""
    every = _described({**words.groups[""], "help": "Say more about a command."}, 12)
    groups = "".join(
        _GROUP.replace("@NAME@", name).replace("@LIST@", _described(commands, 16))
        for name, commands in words.groups.items()
        if name
    )
    head = _HEAD.replace("@EVERY@", every).replace("@GROUPS@", groups).replace("@SETTINGS@", _settings(words))
    return "".join([head, *map(_command, words.commands), _TAIL])


def _settings(words: Words) -> str:
    """Return the names that --set takes: the only words with a suffix."""
    options = (option for command in words.commands for option in command.options)
    return " ".join(next(one.value.words for one in options if one.value.ending and one.value.words))


def _described(commands: Mapping[str, str], indent: int) -> str:
    return "".join(f"{' ' * indent}{_quoted(f'{name}:{text}')}\n" for name, text in commands.items())


def _command(command: CommandWords) -> str:
    specs = [_option(option) for option in command.options]
    specs += _arguments(command.arguments)
    lines = " \\\n".join(f"            {spec}" for spec in specs)
    return f"    ({_quoted(command.name)})\n        _arguments -s -S : \\\n{lines} ;;\n"


def _option(option: OptionWords) -> str:
    names = "{" + ",".join(option.names) + "}" if len(option.names) > 1 else option.names[0]
    others = "" if option.is_repeated else f"({' '.join(option.names)})"
    text = option.help.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    repeated = "'*'" if option.is_repeated else _quoted(others) if len(option.names) > 1 else ""
    return f"{repeated}{names}{_quoted(f'[{text}]' + _action(option.value))}"


def _arguments(arguments: Iterable[Value]) -> list[str]:
    every = list(arguments)
    first = [_quoted(f"{at}{_action(one)}") for at, one in enumerate(every[:-1], 1)]
    return [*first, _quoted(f"*{_action(every[-1])}")] if every else []


def _action(value: Value) -> str:
    """Return the `_arguments` specification of a value: its name, and where to get it from."""
    if value.takes is Takes.flag:
        return ""
    if value.takes is Takes.words:
        return ":setting:_kafkatool_settings" if value.ending else f":word:({' '.join(value.words)})"
    actions = {
        Takes.files: ":file:_files",
        Takes.paths: ":path:_kafkatool_paths",
        Takes.partitions: ":partition:_kafkatool_partitions",
    }
    return actions.get(value.takes, ":value: ")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
