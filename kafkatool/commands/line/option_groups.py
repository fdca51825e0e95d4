"""Options that come together: a command takes a dataclass of them as one parameter.

Typer knows only functions with one parameter for every option. `flat` makes such a function of a command, so
that options which many commands share are listed once, with what is made of them beside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

from kafkatool.commands.screen.csv_safety import CSV_SAFE, NAME, OPTION, offers_csv


def flat(command: Callable[..., None]) -> Callable[..., None]:
    """The command with every parameter that is a dataclass replaced by the fields of it.

    One that writes CSV takes --csv-safe besides, which the writers of CSV ask for.
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
