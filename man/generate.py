"""Write the man pages from the command definitions and the declared rows.

    python man/generate.py [DIR]

Nothing in a page is written twice: help texts, examples and exit codes come from the commands. The JSON
schema of NDJSON rows, in docs/, comes from the same declarations as kafkatool-ndjson(5). The pages are plain
ASCII and carry no date, so that the same definitions give the same bytes everywhere.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer.main

from kafkatool import __version__
from kafkatool.cli import app, leaves
from kafkatool.commands.line.options import EXIT_CODES
from kafkatool.commands.rows.all_tables import ROW_TABLES
from kafkatool.commands.rows.row_table import RowTable
from kafkatool.engine.batches.row_fields import RowField

NDJSON = "kafkatool-ndjson"
EXIT = "kafkatool-exit"
HELP = ("-h", "--help")


def pages() -> dict[str, str]:
    """File name to text, for every page."""
    root: Any = typer.main.get_command(app)
    commands = leaves(root)
    names = [_page_name(name) for name in commands]
    texts = {f"{_page_name(name)}.1": _command_page(name, one, names) for name, one in commands.items()}
    others = {f"{NDJSON}.5": _ndjson_page(), f"{EXIT}.7": _exit_page(commands)}
    return {"kafkatool.1": _main_page(root), **texts, **others}


def _page_name(command: str) -> str:
    return f"kafkatool-{command.replace(' ', '-')}"


def _main_page(root: Any) -> str:
    commands = leaves(root)
    codes = {code: line for command in commands.values() for code, line in _exit_codes(command)}
    return _page(
        "kafkatool",
        1,
        _summary(root),
        *_section("Synopsis", "\\fBkafkatool\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR]... [\\fIPATH\\fR]..."),
        *_section("Description", *_paragraphs(root.help)),
        *_section("Commands", *(line for name in commands for line in _command_entry(name, commands))),
        *_section("Options", *_options(root)),
        *_section("Exit status", *_listed(sorted(codes.items()))),
        *_section("Environment", *_tagged(".B NO_COLOR", "No colour in the progress bar.")),
        *_see_also(*(f"{_page_name(name)}(1)" for name in commands), f"{NDJSON}(5)", f"{EXIT}(7)"),
    )


def _command_entry(name: str, commands: dict[str, Any]) -> list[str]:
    return _tagged(f".BR {_escape(_page_name(name))} (1)", _summary(commands[name]))


def _command_page(words: str, command: Any, names: Iterable[str]) -> str:
    name = _page_name(words)
    others = [f"{other}(1)" for other in names if other != name]
    synopsis = f"\\fB{_escape(f'kafkatool {words}')}\\fR"
    arguments = [f"[\\fI{_escape(p.metavar)}\\fR]" for p in command.params if p.param_type_name == "argument"]
    return _page(
        name,
        1,
        _summary(command),
        *_section("Synopsis", " ".join([synopsis, "[\\fIOPTION\\fR]...", *arguments])),
        *_section("Description", *_paragraphs(command.help), *_arguments(command)),
        *_section("Options", *_options(command)),
        *_section("Exit status", *_listed(_exit_codes(command))),
        *_section("Examples", *_examples(command)),
        *_see_also("kafkatool(1)", *others, f"{NDJSON}(5)", f"{EXIT}(7)"),
    )


def _ndjson_page() -> str:
    rules = (
        "With --format ndjson every command writes one JSON object a line. The key kind names its shape; the "
        "other keys are listed here for every kind, and are always there unless the list says otherwise.",
        "Times are integer milliseconds since 1970-01-01T00:00:00Z, in keys that end in _ms. Null is null, "
        "which is not empty; what is unknown is null, never a guess. Byte strings are written as --bytes "
        'says: as text where they are UTF-8 and as {"base64": "..."} where not, or all as hex or base64.',
        "Kinds and keys are stable: new ones may come, none goes or changes its meaning without a word in "
        "the change log. Readers should pass over kinds and keys that they do not know.",
    )
    kinds = []
    for name, table in ROW_TABLES.items():
        kinds += [f".SS {_escape(name)}", _escape(f"{table.meaning} Written by {table.command}.")]
        for field in table.fields:
            note = " (not in every row)" if field.optional else ""
            kinds += _tagged(f".B {_escape(field.key)}", f"{field.meaning}{note}")
    commands = sorted({table.command for table in ROW_TABLES.values()})
    return _page(
        NDJSON,
        5,
        "what kafkatool's commands write with --format ndjson",
        *_section("Description", *_paragraphs("\n\n".join(rules))),
        *_section("Kinds", *kinds),
        *_see_also("kafkatool(1)", *(f"kafkatool-{name}(1)" for name in commands)),
    )


_TYPES = {
    **dict.fromkeys(("text", "word"), ("string",)),
    **dict.fromkeys(("int16", "int32", "int64", "size", "time_ms"), ("integer",)),
    "flag": ("boolean",),
    "real": ("number",),
    "data": ("string", "object"),
    **dict.fromkeys(("ints", "texts", "items", "headers"), ("array",)),
    "tree": ("object",),
}
_ITEMS = {"ints": "integer", "texts": "string"}


def schema() -> str:
    """The JSON schema of a row, by its kind. Kinds and keys that it does not name may come."""
    kinds = [
        {"if": {"properties": {"kind": {"const": name}}}, "then": {"$ref": f"#/$defs/{name}"}}
        for name in ROW_TABLES
    ]
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A row of kafkatool --format ndjson",
        "type": "object",
        "required": ["kind"],
        "allOf": kinds,
        "$defs": {name: _kind_schema(table) for name, table in ROW_TABLES.items()},
    }
    found = json.dumps(whole, indent=1)
    for innermost in (r"\[[^][{}]*\]", r"\{[^{}]*\}"):  # a line for each key
        found = re.sub(innermost, lambda lines: " ".join(lines[0].split()), found)
    return found + "\n"


def _kind_schema(table: RowTable) -> dict[str, Any]:
    return {
        "description": f"{table.meaning} Written by {table.command}.",
        "required": [field.key for field in table.fields if not field.optional],
        "properties": {field.key: _field_schema(field) for field in table.fields},
    }


def _field_schema(field: RowField) -> dict[str, Any]:
    types = [*_TYPES[field.type], *(() if field.never_null else ("null",))]
    items = {"items": {"type": _ITEMS[field.type]}} if field.type in _ITEMS else {}
    return {"description": field.meaning, "type": types, **items}


_MORE_OF_CODES = {
    0: "Findings below --fail-on do not change it. A plan that was only shown ends with it, too.",
    2: "The command line makes no sense, or names nothing that is there. Nothing was done.",
    3: "Something could not be read, written or finished, and stderr says what. All else was done and shown: "
    "one unreadable file does not end a walk.",
    4: "The job was done, and damage was found. What Kafka's own tool prints of its false alarms is not such "
    "a finding.",
    5: "A broker uses the directory, a value would have been a guess, or the disk is too full. Nothing was "
    "changed.",
    130: "By Ctrl-C. What was printed until then is right; nothing is left half written.",
    141: "As of a program that SIGPIPE ends: head and others close the pipe when they have enough.",
}


def _exit_page(commands: dict[str, Any]) -> str:
    codes = {code: f"{meaning}. {_MORE_OF_CODES[code]}" for code, meaning in EXIT_CODES.items()}
    who = {
        code: [name for name, one in commands.items() if code in dict(_exit_codes(one))] for code in (4, 5)
    }
    rules = (
        "Every command of kafkatool ends with one of these. 1 is left to what should not happen, and never "
        "chosen on purpose.",
        "Where several are due the most serious one is taken: 5, then 3, then 4.",
    )
    return _page(
        EXIT,
        7,
        "what kafkatool's exit codes mean to scripts",
        *_section("Description", *_paragraphs("\n\n".join(rules))),
        *_section("Codes", *_listed((code, text.removesuffix(".")) for code, text in codes.items())),
        *_section(
            "Which command ends with which",
            *_paragraphs("0, 2, 3, 130 and 141: every command."),
            *(
                line
                for code, names in who.items()
                for line in [".PP", _escape(f"{code}: {', '.join(names)}.")]
            ),
        ),
        *_section(
            "Example",
            ".nf",
            *map(
                _escape,
                (
                    "kafkatool verify -q /var/lib/kafka/data",
                    'case "$?" in',
                    "0) ;;",
                    "4) echo damaged ;;",
                    "*) echo could not tell ;;",
                    "esac",
                ),
            ),
            ".fi",
        ),
        *_see_also("kafkatool(1)", f"{NDJSON}(5)"),
    )


def _page(name: str, section: int, summary: str, *lines: str) -> str:
    heading = f'.TH {_escape(name.upper())} {section} "" "kafkatool {__version__}" "kafkatool manual"'
    title = f"{_escape(name)} \\- {_escape(summary)}"
    comment = '.\\" Generated by man/generate.py from the command definitions: do not edit.'
    return "\n".join([comment, heading, *_section("Name", title), *lines]) + "\n"


def _section(title: str, *lines: str) -> list[str]:
    return [f".SH {title.upper()}", *lines]


def _see_also(*names: str) -> list[str]:
    references = [re.sub(r"(.+)(\(\d\))", r".BR \1 \2", _escape(name)) for name in names]
    return _section("See also", *(f"{line}," for line in references[:-1]), references[-1])


def _summary(command: Any) -> str:
    """The first sentence of the help, without its full stop."""
    return re.sub(r"\s+", " ", command.help.split("\n\n")[0]).strip().removesuffix(".")


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(text.strip().split("\n\n")):
        if number:
            yield ".PP"
        yield _escape(re.sub(r"\s+", " ", paragraph))


def _arguments(command: Any) -> Iterator[str]:
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            yield from _tagged(f".I {_escape(parameter.metavar)}", parameter.help)


def _options(command: Any) -> Iterator[str]:
    for parameter in command.params:
        if parameter.param_type_name == "option" and not parameter.hidden:
            yield from _tagged(_option_tag(parameter), _option_text(parameter))
    yield from _tagged(_names(HELP), "Show help and exit.")


def _option_tag(option: Any) -> str:
    names = _names(option.opts)
    if option.is_flag:
        return names
    if option.metavar:
        return f"{names} \\fI{_escape(option.metavar)}\\fR"
    choices = "|".join(str(choice) for choice in getattr(option.type, "choices", ()))
    return f"{names} {_escape(choices)}" if choices else f"{names} \\fI{option.name.upper()}\\fR"


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"\\fB{_escape(name)}\\fR" for name in names)


def _option_text(option: Any) -> str:
    text = option.help
    if option.multiple and "repeated" not in text:
        text += " May be repeated."
    if not option.is_flag and option.show_default and option.default is not None:
        text += f" Default: {option.default}."
    return str(text)


def _examples(command: Any) -> Iterator[str]:
    """Each as its meaning and, indented and unbroken, the command line."""
    for meaning, line in re.findall(r"^ +# (.+)\n +(.+)$", command.epilog, re.MULTILINE):
        yield from (".PP", f"{_escape(meaning[0].upper() + meaning[1:])}:")
        yield from (".PP", ".RS 4", ".nf", _escape(line), ".fi", ".RE")


def _exit_codes(command: Any) -> list[tuple[int, str]]:
    section = command.epilog.partition("Exit codes:")[2]
    return [(int(code), meaning) for code, meaning in re.findall(r"^ +(\d+) +(.+)$", section, re.MULTILINE)]


def _listed(codes: Iterable[tuple[int, str]]) -> Iterator[str]:
    for code, meaning in codes:
        yield from _tagged(f".B {code}", f"{meaning[0].upper()}{meaning[1:]}.")


def _tagged(tag: str, text: str) -> list[str]:
    return [".TP", tag, _escape(text)]


def _escape(text: str) -> str:
    """Text as troff takes it literally, in ASCII."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga")
    text = "".join(c if ord(c) < 128 else f"\\[u{ord(c):04X}]" for c in text)
    # A dot or a quote at the start of a line, and only there, would be a request.
    return re.sub(r"^([.'])", r"\\&\1", text)


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for name, text in pages().items():
        (target / name).write_text(text, encoding="ascii")
    if target == Path(__file__).parent:
        (target.parent / "docs" / "ndjson.schema.json").write_text(schema(), encoding="ascii")


if __name__ == "__main__":
    main()
