"""The completion script for bash."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from kafkatool.commands.completion.words import CommandWords, Takes, Value, Words

_HEAD = """\
# Completion of kafkatool for bash. Written by `kafkatool completion bash`: changes belong there.

# What a command takes: its options, and what its arguments are.
_kafkatool_command() {
    case $1 in
"""
_VALUES = """\
    *) return 1 ;;
    esac
}

# What comes behind an option of a command.
_kafkatool_value() {
    case "$1 $2" in
"""
_TAIL = r"""    *) takes=flag ;;
    esac
}

_kafkatool_words() {
    mapfile -t COMPREPLY < <(compgen -W "$1" -S "${2-}" -- "$current")
    if [[ ${2-} ]]; then compopt -o nospace; fi
}

# Files; and for a topic with several partitions all of them at once, as a pattern.
_kafkatool_paths() {
    # What is quoted, and what the shell would expand, is best left to its own completion of files.
    if [[ $current == *[\'\"\\\$\~\`]* ]]; then return; fi
    local place=${current%"${current##*/}"} partition topic
    local -A count=()
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
    for partition in "$current"*/; do
        partition=${partition#"$place"}
        topic=${partition%-*}
        if [[ $partition == *-[0-9]*/ && $topic != *[!A-Za-z0-9._-]* && ${partition##*-} != *[!0-9/]* ]]; then
            count[$topic]+=x
            if [[ ${count[$topic]} == xx && "$place$topic-*" == "$current"* ]]; then
                COMPREPLY+=("$place$topic-*")
            fi
        fi
    done
}

# Directories of partitions, deleted ones too, of the log directories on this line.
_kafkatool_partitions() {
    local word partition
    local -a found=()
    for word in "${COMP_WORDS[@]:1}"; do
        for partition in "$word"/*-*/; do
            partition=${partition%/}
            partition=${partition##*/}
            if [[ $partition =~ -[0-9]+(\.[0-9a-f]+-[a-z]+)?$ ]]; then found+=("$partition"); fi
        done
    done
    local IFS=$' \t\n'
    _kafkatool_words "${found[*]}" "$1"
}

_kafkatool() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} option= command= word
    local takes= words= ending= options=
    local -a arguments=()
    COMPREPLY=()
    # To bash, --format=table is three words.
    if [[ $current == = ]]; then
        option=$before current=
    elif [[ $before == = ]]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
        if [[ $option != -* ]]; then compopt +o default; return; fi
    elif [[ $before == -* ]]; then
        option=$before
    fi
    local -i number=0
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        if [[ $word == -* ]]; then continue; fi
        case $command in
        '') command=$word ;;
        @GROUPS@) command+=" $word" ;;
        *) number+=1 ;;
        esac
    done
    case $command in
@LISTS@    esac
    _kafkatool_command "$command" || return
    if [[ $option ]]; then _kafkatool_value "$command" "$option"; fi
    if [[ ! $option || $takes == flag ]]; then
        if [[ $current == -* ]]; then
            _kafkatool_words "$options"
            return
        fi
        # An option's value was counted among the arguments: only the first of all can be told apart.
        takes=${arguments[number && ${#arguments[@]} > 1]-} words=
        if [[ $takes == words:* ]]; then words=${takes#words:} takes=words; fi
    fi
    case $takes in
    words) _kafkatool_words "$words" "$ending" ;;
    paths) _kafkatool_paths ;;
    partitions) _kafkatool_partitions "$ending" ;;
    files) ;;
    *) compopt +o default ;;
    esac
}

complete -o default -F _kafkatool kafkatool
"""


def script(words: Words) -> str:
    """Return the whole script."""
    groups = "|".join(group for group in words.groups if group)
    lists = {**words.groups, "": [*words.groups[""], "help"], "help": words.groups[""]}
    cases = "".join(
        f"    '{group}')\n        _kafkatool_words '{' '.join(commands)}'\n        return ;;\n"
        for group, commands in lists.items()
    )
    tail = _TAIL.replace("@GROUPS@", groups).replace("@LISTS@", cases)
    return "".join([_HEAD, *map(_command, words.commands), _VALUES, *_values(words), tail])


def _command(command: CommandWords) -> str:
    options = " ".join(name for option in command.options for name in option.names)
    arguments = " ".join(
        f"'words:{' '.join(one.words)}'" if one.takes is Takes.words else str(one.takes)
        for one in command.arguments
    )
    return f"    '{command.name}')\n        arguments=({arguments})\n        options='{options}' ;;\n"


def _values(words: Words) -> Iterator[str]:
    """Yield a line per option: first for commands where it takes something special, then for all others."""
    found: dict[str, dict[str, Value]] = defaultdict(dict)
    for command in words.commands:
        for option in command.options:
            for name in option.names:
                found[name][command.name] = option.value
    for name in sorted(found):
        most = Counter(found[name].values()).most_common(1)[0][0]
        yield from (_case(f"'{one} {name}'", value) for one, value in found[name].items() if value != most)
        if most.takes is not Takes.flag:
            yield _case(f"*' {name}'", most)


def _case(pattern: str, value: Value) -> str:
    words = f" words='{' '.join(value.words)}'" if value.words else ""
    ending = f" ending='{value.ending}'" if value.ending else ""
    return f"    {pattern}) takes={value.takes}{words}{ending} ;;\n"
