"""The Python examples of docs/library.md: run in order, in one namespace, beside a directory `sample`.

A ```text block right after an example is what it prints. `python -m tests.transcripts` updates it.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

from tests.places import ROOT

LIBRARY = ROOT / "docs" / "library.md"
_BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```\n)?", re.MULTILINE | re.DOTALL
)


def examples(text: str) -> list[tuple[str, str]]:
    """Return each example with what it is said to print."""
    return [(block["code"], block["printed"] or "") for block in _BLOCK.finditer(text)]


def replay(text: str, directory: Path) -> str:
    """Return the text with what its examples print now."""
    with chdir(directory):
        printed = _printed([code for code, _ in examples(text)])
        return _BLOCK.sub(lambda block: _block(block["code"], next(printed)), text)


def _printed(codes: list[str]) -> Iterator[str]:
    names: dict[str, Any] = {}
    for number, code in enumerate(codes, 1):
        out = io.StringIO()
        with redirect_stdout(out):
            exec(compile(code, f"{LIBRARY.name}, example {number}", "exec"), names)
        yield out.getvalue().replace(os.getcwd(), "/path/to")


def _block(code: str, printed: str) -> str:
    return f"```python\n{code}```\n" + (f"\n```text\n{printed}```\n" if printed else "")
