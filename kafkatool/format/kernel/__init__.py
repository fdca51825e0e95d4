"""The few loops that all the time of a scan goes into, twice: in plain Python, and compiled.

    loops.py       what everybody imports: the compiled functions where they were built, else the reference
    reference.py   what each function promises, in plain Python
    compiled.pyx   the same, in Cython: a .pxi for each subject, and C for checksums and hashes

KAFKATOOL_PURE=1 has the reference used, whatever was built.
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
    """Which of the two is in use."""
    return "pure Python" if chosen is None else str(chosen.NAME)
