"""The swap of a compacted partition, and the power failing at every operation of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kafkatool.engine.cluster.topic_config import TopicConfig
from kafkatool.engine.compaction.passes import Compacted
from kafkatool.engine.compaction.placing import plan_swap
from kafkatool.engine.files.disk import Disk
from kafkatool.engine.log.loading import LeftLog, open_log
from kafkatool.engine.log.reading import records
from kafkatool.engine.plan.applying import apply
from kafkatool.engine.plan.steps import Applying
from tests.engine.crash_disk import CrashDisk, PowerCut, every_way
from tests.logs import GUEST


class Crash(NamedTuple):
    """The operation at which the power failed, what was lost of it, and the partition that is left."""

    operation: str
    way: str
    directory: Path

    @property
    def files(self) -> frozenset[tuple[str, bytes]]:
        """All that counts of it: no broker, and nobody else, looks at the files that we alone know."""
        paths = [path for path in self.directory.iterdir() if ".kafkatool-" not in path.name]
        return frozenset((path.name, path.read_bytes()) for path in paths)


def crashed_swaps(done: Compacted, partition: Path, topic: str, tmp_path: Path) -> Iterator[Crash]:
    """All that a power cut may leave; the last ones are of a swap that was finished."""
    number, finished = 0, False
    while not finished:
        root = tmp_path / f"disk-{number}"
        copy = root / "logs" / partition.name
        shutil.copytree(partition, copy, copy_function=shutil.copy2)
        disk = CrashDisk(root, stop_at=number)
        plan = plan_swap(done, str(copy), str(copy.parent), (topic, 0), GUEST)
        with suppress(PowerCut):
            apply(plan, disk, Applying(10_000, offline=True))
            finished = True
        is_write = disk.operations[-1].startswith("write")
        for at, (way, keep, tear) in enumerate(every_way(number)):
            if "torn" in way and not is_write:
                continue
            left = disk.survivors(tmp_path / f"left-{number}-{at}", keep=keep, tear=tear)
            yield Crash(disk.operations[-1], way, left / "logs" / partition.name)
        disk.close()
        shutil.rmtree(root)
        number += 1


def offsets_found(directory: Path, config: TopicConfig, now_ms: int) -> list[int]:
    """What we find when we open a log after a crash."""
    with open_log(Disk(), str(directory), config, now_ms=now_ms, left=LeftLog()) as opened:
        return [record.offset for record in records(opened, 0)]
