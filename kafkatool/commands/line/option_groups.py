"""Groups of options: a command takes a dataclass of them as one parameter.

Typer only knows functions with one parameter per option. `flat` turns a command into such a function, so that
shared options are listed once, next to the code that uses them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

from kafkatool.commands.screen.csv_safety import CSV_SAFE, NAME, OPTION, offers_csv


def flat(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with every dataclass parameter replaced by the dataclass's fields.

    If it writes CSV, it also gets --csv-safe, which the CSV writers read.
    """
    groups: dict[str, Any] = {}
    parameters: list[Parameter] = []
    for parameter in signature(command, eval_str=True).parameters.values():
        if is_dataclass(parameter.annotation):
            groups[parameter.name] = parameter.annotation
            parameters += _options(parameter.annotation)
        else:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))

    if any(offers_csv(parameter.annotation) for parameter in parameters):
        parameters.append(OPTION)

    def run(**options: object) -> None:
        CSV_SAFE.set(bool(options.pop(NAME, False)))
        for name, group in groups.items():
            options[name] = group(**{field.name: options.pop(field.name) for field in fields(group)})
        command(**options)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


def _options(group: Any) -> list[Parameter]:
    types = get_type_hints(group, include_extras=True)
    return [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=types[field.name])
        for field in fields(group)
    ]
