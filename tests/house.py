"""The rooms of the package as docs/design.md shows them, from the contracts and the rooms themselves."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator

from tests.places import ROOT

_VERBS = (
    "Take options, call the engine once, write rows, end with an exit code; verbs do not import each other."
)


def layers(container: str) -> list[list[str]]:
    """Return the rooms of a package in the order of its contract, from the top; independent ones together."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for contract in project["tool"]["importlinter"]["contracts"]:
        if contract.get("containers") == [container]:
            assert contract["exhaustive"]
            return [[room.strip() for room in layer.split("|")] for layer in contract["layers"]]
    raise LookupError(container)


def first_line(room: str) -> str:
    text = ast.get_docstring(ast.parse((ROOT / "kafkatool" / room / "__init__.py").read_text()))
    assert text is not None, room
    return text.splitlines()[0]


def map_rows() -> Iterator[str]:
    """Yield the rows of the map: level, room, one line."""
    engine, (_, *shared) = layers("kafkatool.engine"), layers("kafkatool.commands")
    top = len(engine) + len(shared) + 1
    yield f"| {top} | `commands/<verb>` | {_VERBS} |"
    for level, (room,) in zip(range(top - 1, 0, -1), shared, strict=False):
        yield f"| {level} | `commands/{room}` | {first_line(f'commands/{room}')} |"
    for level, rooms in zip(range(len(engine), 0, -1), engine, strict=True):
        for room in rooms:
            yield f"| {level} | `engine/{room}` | {first_line(f'engine/{room}')} |"
