"""A map in parts cleans as a whole one does, wherever that is full, however little memory there is."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkatool.engine.compaction import key_room
from kafkatool.engine.compaction.cleaner import Cleaned
from kafkatool.engine.compaction.key_room import BYTES_A_KEY, KeyRoom, KeysDoNotFit
from kafkatool.engine.compaction.map_in_parts import MapInParts
from kafkatool.engine.compaction.offset_map import joined_keys
from kafkatool.engine.files.source import Guest
from kafkatool.engine.jobs.in_order import side_by_side
from kafkatool.engine.jobs.worker_pool import Workers, workers
from kafkatool.errors import KafkatoolError
from kafkatool.format import kernel
from kafkatool.format.legacy import write_message
from tests.engine.compaction_logs import ROOM, CleanLog

KEYS = ["", *(f"key {number}" for number in range(12))]
PAIRS = st.tuples(st.sampled_from(KEYS), st.sampled_from(["1", "2", "null"]))
BATCHES = st.lists(PAIRS, min_size=1, max_size=4)
STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "put", "put", "abort", "commit", "roll"]), BATCHES),
    min_size=1,
    max_size=14,
)


@pytest.fixture(autouse=True)
def _few_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_room, "FEWEST_KEYS", 1)


def write(directory: Path, steps: list[tuple[str, list[tuple[str, str]]]]) -> CleanLog:
    log = CleanLog(directory)
    for number, (what, pairs) in enumerate(steps):
        texts = [f"{key}={value}" for key, value in pairs]
        if what == "roll":
            log.put(*texts).roll()
        elif what == "put":
            log.put(*texts)
        else:
            log.put(*texts, pid=number, txn=True)
            (log.abort if what == "abort" else log.commit)(number)
    log.roll()
    log.close()
    return log


def files(log: CleanLog) -> dict[str, bytes]:
    log.close()
    return {path.name: path.read_bytes() for path in sorted(log.directory.iterdir())}


def told(cleaned: Cleaned) -> tuple[object, ...]:
    offsets = cleaned.offsets
    known = offsets.is_full, offsets.key_count, offsets.capacity, offsets.dirty_keys
    return cleaned.end_offset, cleaned.counts, *known


@pytest.fixture(scope="module")
def processes() -> Iterator[Workers]:
    with workers(2) as pool:
        yield pool


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(STEPS, st.sampled_from([1, 2, 3, 5, 8, 11, ROOM]), st.integers(1, 6), st.integers(0, 9), st.booleans())
def test_parts_clean_as_a_whole_map_does(
    tmp_path_factory: pytest.TempPathFactory,
    processes: Workers,
    steps: list[tuple[str, list[tuple[str, str]]]],
    capacity: int,
    keys: int,
    checkpoint: int,
    is_sent: bool,
) -> None:
    """In this process, and as on a cluster: parts where there are workers, then the pass somewhere else."""
    home = tmp_path_factory.mktemp("logs")
    (home / "whole").mkdir()
    first = write(home / "whole" / "t-0", steps)
    checkpoint = min(checkpoint, first.log.log_end_offset)
    first.close()
    shutil.copytree(home / "whole", home / "parts")
    second = CleanLog(home / "parts" / "t-0")
    whole = first.clean(checkpoint, capacity=capacity, room=KeyRoom(is_all_counted=True))
    room = KeyRoom(keys * BYTES_A_KEY, is_all_counted=True)
    if is_sent:
        room = with_parts_of(second, checkpoint, capacity, room, processes)
    parts = second.clean(checkpoint, capacity=capacity, room=room)
    assert told(parts) == told(whole)
    assert files(second) == files(first)


def with_parts_of(log: CleanLog, checkpoint: int, capacity: int, room: KeyRoom, pool: Workers) -> KeyRoom:
    """The keys are taken in parts before a pass that has nobody to do it."""
    alone = replace(room, workers=None)
    dirty = log.range(checkpoint)
    try:
        alone.build(log.read(), dirty, capacity, Guest(cache_keep=True))
    except KeysDoNotFit as error:
        parting = pickle.loads(pickle.dumps(error.parting))
        [found] = side_by_side(pool, [parting.steps(pool)])
        return replace(alone, in_parts=pickle.loads(pickle.dumps(found)))
    return alone


def test_a_range_that_is_not_what_it_was_in_parts_is_told(tmp_path: Path) -> None:
    log = CleanLog(tmp_path / "t-0").put("a=1", "b=1", "c=1").roll()
    log.close()
    room = with_parts_of(log, 0, ROOM, KeyRoom(BYTES_A_KEY), Workers())
    log.put("a=2").roll()
    log.close()
    with pytest.raises(KafkatoolError, match="changed while it was read"):
        room.build(log.read(), log.range(0), ROOM, Guest(cache_keep=True))


def test_memory_that_has_room_for_all_keys_makes_no_parts(tmp_path: Path) -> None:
    log = CleanLog(tmp_path / "t-0").put("a=1", "b=1").put("a=2").roll()
    log.close()
    assert not isinstance(log.clean(0, room=KeyRoom(2 * BYTES_A_KEY)).offsets, MapInParts)
    assert log.shown() == ["[0-1]{1:b=1}", "2:a=2"]


def test_old_messages_have_parts_too(tmp_path: Path) -> None:
    """As much of them stays as with a whole map."""
    shown = []
    for memory in (None, BYTES_A_KEY):
        log = CleanLog(tmp_path / f"t-{memory or 0}")
        log.put("z=1").roll(40)
        log.close()
        messages = [write_message(at, b"%d" % (at % 3), b"v", magic=1, timestamp_ms=5) for at in range(9)]
        (log.directory / f"{0:020d}.log").write_bytes(b"".join(messages))
        log.clean(0, room=KeyRoom(memory))
        shown.append(log.shown())
    assert shown[0] == shown[1]
    assert [line[0] for line in shown[0]] == ["6", "7", "8"]


def test_a_log_that_changes_meanwhile_is_told() -> None:
    offsets = MapInParts(5)
    with pytest.raises(KafkatoolError, match="changed while it was read"):
        offsets.last_offsets(*joined_keys([b""]), np.array([0]))


PEAK_OF_A_MAP = """
import numpy as np
from kafkatool.format.kernel import loops

def put(keys, first):
    offsets = np.arange(first, first + 10_000, dtype=np.int64)
    starts, sizes = np.arange(0, 80_000, 8), np.full(10_000, 8)
    keys.put(offsets.tobytes(), starts, sizes, offsets, 1 << 40)

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))

put(loops.KeyOffsets(), 0)
before, keys = peak(), loops.KeyOffsets()
for first in range(0, {count}, 10_000):
    put(keys, first)
print(peak() - before, len(keys))
"""


@pytest.mark.skipif(kernel.name() == "pure Python", reason="without the kernel keys are objects of Python")
@pytest.mark.parametrize("count", [600_000, 900_000])
def test_a_key_takes_no_more_than_it_is_said_to(count: int) -> None:
    """Peaks of a process of its own, with some megabytes that are not the table."""
    text = PEAK_OF_A_MAP.format(count=count)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, check=True, timeout=300)
    grown, keys = map(int, done.stdout.split())
    assert keys == count
    assert count * 24 < grown < count * BYTES_A_KEY + (4 << 20)
