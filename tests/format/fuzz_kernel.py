"""Call a kernel that watches its memory with whatever chance brings, for as long as asked.

    python -m tests.format.fuzz_kernel KERNEL.so SECONDS [SEED]

Every buffer is exactly as large as what it holds, so that one byte too far is found out by the sanitizer that
the kernel was built with; what it says is held against the reference as well.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
import time
from random import Random
from typing import Any

from kafkatool.format.kernel import reference
from tests.format.kernel_cases import CALLS, make_case, outcome


def load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("kafkatool.format.kernel.compiled", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def exact(data: bytes) -> memoryview:
    """The same bytes in memory of their own, which ends where they end."""
    return memoryview((ctypes.c_ubyte * len(data)).from_buffer_copy(data)).cast("B")


def checksums(compiled: Any, random: Random) -> None:
    piece = exact(random.randbytes(random.choice([0, 1, 7, 300, 800, 7000])))
    assert compiled.crc32c(piece) == compiled.crc32c_by_tables(piece)


def fuzz(compiled: Any, seconds: float, seed: int) -> int:
    until, cases = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        random = Random(seed + cases)
        case = make_case(random)
        case = case._replace(window=exact(bytes(case.window)))
        for call in CALLS:
            found = outcome(call, compiled, case)
            assert found == outcome(call, reference, case), f"{call.__name__}, seed {seed + cases}"
        checksums(compiled, random)
        cases += 1
    return cases


if __name__ == "__main__":
    kernel, seconds = load(sys.argv[1]), float(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else time.time_ns()
    print(f"{fuzz(kernel, seconds, seed)} cases from seed {seed} on")
