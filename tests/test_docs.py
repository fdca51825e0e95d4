"""What `docs/` says of the code is so: file kinds, byte layouts, links, and examples that run."""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from pathlib import Path

import pytest

from kafkatool.cli import app, leaves
from kafkatool.format import kinds
from tests import library_examples
from tests.places import ROOT
from tests.transcripts import prepare

DOCS = ROOT / "docs"
FORMATS = (DOCS / "formats.md").read_text()
DESIGN = (DOCS / "design.md").read_text()
PAGES = [
    *sorted(DOCS.rglob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
]
LAYOUTS = (
    *("names", "batch", "record", "legacy", "offset_index", "time_index", "txn_index"),
    *("state.producer_snapshot", "state.partition_metadata", "state.checkpoint", "state.properties"),
    *("state.clean_shutdown", "state.quorum_state"),
)


# --- formats ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", kinds.ALL, ids=lambda kind: kind.name)
def test_every_kind_of_file_has_its_row(kind: kinds.FileKind) -> None:
    (row,) = (line for line in FORMATS.splitlines() if line.startswith(f"| `{kind.name}` |"))
    assert row.split(" | ")[2] == kind.title
    assert len(row.split(" | ")) == 5


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_are_those_of_the_code(name: str) -> None:
    text = inspect.getdoc(importlib.import_module(f"kafkatool.format.{name}"))
    assert text is not None
    for paragraph in text.split("\n\n")[1:]:
        assert textwrap.dedent(paragraph).strip("\n") in FORMATS


def test_every_module_that_reads_a_kind_shows_its_layout() -> None:
    readers = {
        word
        for kind in kinds.ALL
        if kind.read is not None
        for word in (*kind.read.__code__.co_names, kind.read.__module__.rpartition(".")[2])
    }
    modules = {path.stem for path in (ROOT / "kafkatool" / "format").rglob("*.py")}
    assert (readers & modules) - {"kinds"} <= {name.rpartition(".")[2] for name in LAYOUTS}


# --- the library --------------------------------------------------------------------------------------


def test_the_examples_of_the_library_print_what_they_show(tmp_path: Path) -> None:
    prepare(tmp_path)
    written = library_examples.LIBRARY.read_text()
    assert len(library_examples.examples(written)) > 5
    assert library_examples.replay(written, tmp_path) == written, "if this is right: make transcripts"


# --- design -------------------------------------------------------------------------------------------


def test_every_command_has_its_shape() -> None:
    import typer.main

    table = DESIGN.partition("| shape |")[2].partition("\n\n")[0]
    shown = re.findall(r"`([a-z][a-z-]*(?: [a-z]+)?)`", table)
    assert len(shown) == len(set(shown)), "one shape each"
    assert set(leaves(typer.main.get_command(app))) <= set(shown)


def test_every_file_that_is_named_exists() -> None:
    for named in set(
        re.findall(r"`((?:kafkatool|tests|benchmarks|docs|examples|man)/[\w./-]*)`", DESIGN + FORMATS)
    ):
        assert (ROOT / named).exists(), named


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if "://" not in link:
            assert (page.parent / link).exists(), link
