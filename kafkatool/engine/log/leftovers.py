"""Clean up what a cleaning, a split or a deletion left, before a log is opened for writing.

`engine/recover/leftovers.py` decides what to do, on a virtual directory; here it is carried out, stage by
stage, each on disk before the next begins. Nothing is backed up, unlike in `kafkatool recover`.
"""

from __future__ import annotations

import os

from kafkatool.engine.directory.log_dir import read_partition
from kafkatool.engine.files.disk import Files
from kafkatool.engine.files.source import Guest
from kafkatool.engine.plan.steps import Action, Step
from kafkatool.engine.plan.virtual import VirtualDirectory
from kafkatool.engine.recover.leftovers import drop_temporary_files, finish_swaps
from kafkatool.engine.recover.result import BrokerThrows, PartitionLoading, StartFacts
from kafkatool.errors import KafkatoolError

_SUFFIXES = (".cleaned", ".swap", ".deleted")


class Unfinished(KafkatoolError):
    """A broker was interrupted while it replaced segments, and could not load what it left."""


def resolve_leftovers(files: Files, directory: str, now_ms: int) -> None:
    """Finish or undo what was begun, as a broker does; raise Unfinished if a broker would give up."""
    if not any(name.endswith(_SUFFIXES) for name in os.listdir(directory)):
        return
    after = VirtualDirectory(read_partition(directory, []), Guest(cache_keep=True))
    loading = PartitionLoading(after, StartFacts(now_ms))
    try:
        drop_temporary_files(loading)
        finish_swaps(loading)
    except BrokerThrows as error:
        raise Unfinished(f"{directory}: {error}") from None
    for stage in after.stages():
        for step in stage:
            _carry_out(files, step)
        files.sync_directory(directory)


def _carry_out(files: Files, step: Step) -> None:
    if step.action is Action.RENAME and step.target is not None:
        files.rename(step.path, step.target)
    elif step.action is Action.REMOVE:
        files.unlink(step.path)
    else:
        raise AssertionError(step)
