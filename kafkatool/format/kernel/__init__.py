"""The few hot loops of a scan, implemented twice: in plain Python, and compiled.

    loops.py       what everybody imports: the compiled functions if they were built, else the reference
    reference.py   what each function promises, in plain Python
    compiled.pyx   the same in Cython: one .pxi per subject, and C for checksums and hashes

KAFKATOOL_PURE=1 selects the reference even if the compiled kernel was built.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType


def _load() -> ModuleType | None:
    if os.environ.get("KAFKATOOL_PURE", "0") not in ("", "0"):
        return None
    try:
        return import_module("kafkatool.format.kernel.compiled")
    except ImportError:
        return None


chosen = _load()


def name() -> str:
    """Return which of the two is in use."""
    return "pure Python" if chosen is None else str(chosen.NAME)
