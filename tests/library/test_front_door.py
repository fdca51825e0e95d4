"""`import kafkatool`: a few names, nothing heavy, and a stub that says their types."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module

import pytest

import kafkatool
from tests.places import ROOT

PROMISED = [
    *("BatchQuery", "ConsumerRecord", "Damage", "DamagedLog", "Finding", "FindingClass", "FormatError"),
    *("KafkaLogs", "KafkatoolError", "LogBatch", "Partition", "RecordQuery", "Severity", "UsageError"),
    *("__version__", "open"),
]


def test_the_promised_names_are_there_and_no_others() -> None:
    assert sorted(dir(kafkatool)) == PROMISED
    for name in PROMISED:
        assert getattr(kafkatool, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'close'"):
        kafkatool.close  # type: ignore[attr-defined]  # noqa: B018


def test_the_stub_says_where_each_name_comes_from() -> None:
    stub = ast.parse((ROOT / "kafkatool" / "__init__.pyi").read_text())
    named = {
        alias.name: node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted([*named, "__version__"]) == PROMISED
    for name, module in named.items():
        assert module is not None
        assert getattr(kafkatool, name) is getattr(import_module(module), name)


@pytest.mark.parametrize(
    ("statement", "left_out"),
    [
        ("import kafkatool", {"kafkatool.library", "kafkatool.engine", "numpy", "pyarrow"}),
        ("import kafkatool; kafkatool.open", {"pyarrow", "pyspark", "typer", "rich"}),
    ],
)
def test_nothing_is_imported_before_it_is_needed(statement: str, left_out: set[str]) -> None:
    code = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert left_out.isdisjoint(done.stdout.split())
