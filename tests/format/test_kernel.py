"""The compiled kernel does what its reference does, whatever it is given."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from random import Random
from typing import Any

import crc32c as package
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.kernel import loops, reference
from tests.format.kernel_cases import CALLS, make_case, outcome
from tests.logs import TIME, batches

MODULE = "kafkatool.format.kernel.compiled"
LONGEST = 20_000
PATTERN = Random(1).randbytes(LONGEST + 64)


@pytest.fixture(scope="module")
def compiled() -> Any:
    try:
        return import_module(MODULE)
    except ImportError:
        if os.environ.get("KAFKATOOL_REQUIRE_PEERS") == "1":
            raise
        pytest.skip("no kernel was built here")


# --- the same as the reference ------------------------------------------------------------------------


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=False))
def test_kernel_and_reference_agree_on_any_call(compiled: Any, random: Random) -> None:
    case = make_case(random)
    for call in CALLS:
        assert outcome(call, compiled, case) == outcome(call, reference, case), call.__name__


def test_kernel_and_reference_agree_on_many_calls(compiled: Any) -> None:
    found: dict[str, set[str]] = {call.__name__: set() for call in CALLS}
    for seed in range(1000):
        case = make_case(Random(seed))
        for call in CALLS:
            one = outcome(call, compiled, case)
            assert one == outcome(call, reference, case), (call.__name__, seed)
            found[call.__name__].add(repr(one))
    # The cases reach what they are made for.
    assert found.pop("records_hold") == {"True", "False", repr(ValueError)}
    assert min(len(outcomes) for outcomes in found.values()) > 100


@given(st.binary(max_size=300), st.integers(-9, 309), st.integers(-9, 309))
def test_kernel_and_reference_agree_on_any_bytes(compiled: Any, window: bytes, start: int, stop: int) -> None:
    case = make_case(Random(0))._replace(window=window, start=start, stop=stop, row=0, base=0)
    for call in CALLS:
        assert outcome(call, compiled, case) == outcome(call, reference, case)


def test_the_kernel_is_what_everybody_gets_unless_told_otherwise(compiled: Any) -> None:
    is_pure = os.environ.get("KAFKATOOL_PURE", "0") not in ("", "0")
    for name in loops.__all__:
        assert getattr(loops, name) is getattr(reference if is_pure else compiled, name)


def test_both_have_the_same_functions(compiled: Any) -> None:
    for name in loops.__all__:
        assert callable(getattr(compiled, name))
        assert callable(getattr(reference, name))


# --- limits -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["compiled", "reference"])
def test_a_batch_with_too_many_records_is_left_to_others(compiled: Any, which: str) -> None:
    kernel = compiled if which == "compiled" else reference
    good = batches(1)[0]
    many = write_batch([NewRecord(None, b"", TIME)] * (reference.MOST_LINES + 1), base_offset=3)
    text, at, last, gaps = kernel.deep_lines(good + many, 0, len(good + many), 0, -1, True)
    assert (text.count(b"\n"), at, last, gaps) == (4, len(good), 2, [])


@pytest.mark.parametrize("which", ["compiled", "reference"])
def test_a_tally_hands_over_its_producers_before_there_are_too_many(compiled: Any, which: str) -> None:
    kernel = compiled if which == "compiled" else reference
    rows = [NewRecord(None, b"v", TIME)]
    log = b"".join(
        write_batch(rows, base_offset=at, partition_leader_epoch=0, producer_id=at, producer_epoch=0)
        for at in range(100)
    )
    empty = np.empty(0, dtype=np.int64)
    tally = kernel.Tally(0, 1 << 62, (empty,) * 4, True)
    tally.epoch, at, seen = 0, 0, []
    while at < len(log):
        at, _why = tally.run(log, at, len(log), at, len(log))
        seen.append([row[0] for row in tally.drain()])
    assert [len(part) for part in seen] == [32, 32, 32, 4]
    assert [one for part in seen for one in part] == list(range(100))


@pytest.mark.parametrize("which", ["compiled", "reference"])
def test_bytes_are_taken_from_anything_that_holds_some(compiled: Any, which: str) -> None:
    kernel = compiled if which == "compiled" else reference
    log = b"".join(batches(3))
    for window in (
        log,
        bytearray(log),
        memoryview(log),
        memoryview(bytearray(log)),
        np.frombuffer(log, np.uint8).data,
    ):
        assert kernel.good_run(window, 0, len(log), -1) == (len(log), 3, 8)


# --- checksums ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["crc32c", "crc32c_by_tables"])
def test_crc_of_every_length(compiled: Any, name: str) -> None:
    view, checksum = memoryview(PATTERN), getattr(compiled, name)
    for size in range(LONGEST + 1):
        start = size * 7 % 64
        assert checksum(view[start : start + size]) == package.crc32c(view[start : start + size]), size


@pytest.mark.parametrize("name", ["crc32c", "crc32c_by_tables"])
@given(st.integers(0, LONGEST), st.integers(0, 63), st.integers(0, 2**32 - 1))
def test_crc_goes_on_from_any_value_at_any_alignment(
    compiled: Any, name: str, size: int, start: int, value: int
) -> None:
    piece = memoryview(PATTERN)[start : start + size]
    assert getattr(compiled, name)(piece, value) == package.crc32c(piece, value)


def test_known_checksums(compiled: Any) -> None:
    for checksum in (compiled.crc32c, compiled.crc32c_by_tables):
        assert checksum(b"123456789") == 0xE3069283
        assert checksum(bytes(32)) == 0x8A9136AA
        assert checksum(b"") == 0


# --- which one is in use ------------------------------------------------------------------------------


def version(**environment: str) -> str:
    command = [sys.executable, "-m", "kafkatool", "--version"]
    environment = {**os.environ, "KAFKATOOL_PURE": "0", **environment}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_version_tells_which_kernel_is_in_use(compiled: Any) -> None:
    assert version().endswith(f" (kernel: {compiled.NAME})\n")
    assert compiled.NAME in ("compiled, CRC by the CPU", "compiled, CRC by tables")
    assert version(KAFKATOOL_PURE="1").endswith(" (kernel: pure Python)\n")
