"""Options that come together reach a command as one value, and Typer as many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from kafkatool.commands.line.option_groups import flat


@dataclass(frozen=True)
class Shape:
    width: Annotated[int, typer.Option("--width", help="How wide.")] = 3
    name: Annotated[str | None, typer.Argument(help="Whose.")] = None


@dataclass(frozen=True)
class Wide(Shape):
    width: Annotated[int, typer.Option("--width", help="How wide, at least.")] = 30


def measure(
    shape: Shape, *, height: Annotated[int, typer.Option("--height")] = 1, wide: bool = False
) -> None:
    """Say what was asked for."""
    print(shape, height, wide)


def stretch(shape: Wide) -> None:
    print(shape)


def said(command: object, *words: str) -> str:
    app = typer.Typer(rich_markup_mode=None)
    app.command()(flat(command))  # type: ignore[arg-type]
    return CliRunner().invoke(app, list(words)).output


def test_the_fields_of_a_group_are_options_and_arguments() -> None:
    assert said(measure, "--width", "7", "box", "--height", "2") == "Shape(width=7, name='box') 2 False\n"


def test_what_is_left_out_has_the_groups_defaults() -> None:
    assert said(measure) == "Shape(width=3, name=None) 1 False\n"


def test_a_group_may_say_an_option_anew() -> None:
    assert said(stretch) == "Wide(width=30, name=None)\n"
    assert "How wide, at least." in said(stretch, "--help")


def test_the_help_is_the_commands_own() -> None:
    assert "Say what was asked for." in said(measure, "--help")
