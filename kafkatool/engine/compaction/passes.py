"""Run several passes of the cleaner, each on the result of the one before."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace

from kafkatool.engine.compaction.cleanable_log import CleanableLog
from kafkatool.engine.compaction.cleaned_segment import Output
from kafkatool.engine.compaction.cleaner import Cleaned, Cleaning, Watch, clean, replaced
from kafkatool.engine.compaction.dirty_range import DirtyRange, dirty_range
from kafkatool.engine.files.disk import Files
from kafkatool.engine.files.whole_files import remove_tree
from kafkatool.errors import KafkatoolError


@dataclass(frozen=True, slots=True)
class Pass:
    """One finished pass."""

    dirty: DirtyRange
    cleaned: Cleaned


@dataclass(slots=True)
class Compacted:
    """The result of some passes over a log. `dirty`: the range at the start; `left`: the range left over."""

    before: CleanableLog
    after: CleanableLog
    dirty: DirtyRange
    left: DirtyRange
    passes: list[Pass] = field(default_factory=list)
    directory: str | None = None
    """Directory of the last pass's segments."""

    @property
    def written(self) -> list[int]:
        """Base offsets of segments that passes wrote: in `after`, but not as the same file in `before`."""
        return _bases_apart(self.after, self.before)

    @property
    def gone(self) -> list[int]:
        """Base offsets of old segments that are no longer in the log."""
        return _bases_apart(self.before, self.after)


def _bases_apart(log: CleanableLog, other: CleanableLog) -> list[int]:
    """Return the base offsets of segments in one log whose files are not in the other."""
    paths = {one.path for one in other.segments}
    return [one.base_offset for one in log.segments if one.path not in paths]


@dataclass(frozen=True, slots=True)
class PassWork:
    """Where passes write: into new directories under `parent`; None: the only pass just counts."""

    files: Files
    parent: str | None
    name: str


def compact(
    log: CleanableLog,
    checkpoint: int | None,
    how: Cleaning,
    work: PassWork,
    most: int | None,
    watch: Watch | None = None,
) -> Compacted:
    """Run at most `most` passes, until nothing is left to clean; raise CleanerStops where one gives up.

    `watch` sees the decisions of the first pass. KeysDoNotFit is raised before that, if at all.
    """
    dirty = dirty_range(log, checkpoint, how.config, how.now_ms, how.guest)
    done = Compacted(log, log, dirty, dirty)
    try:
        while done.left.cleanable_bytes > 0 and (most is None or len(done.passes) < most):
            directory = None
            if work.parent is not None:
                directory = make_pass_directory(work.files, work.parent, work.name, len(done.passes))
            output = Output(work.files, directory)
            before, done.directory = done.directory, directory
            cleaned = clean(done.after, done.left, how, output, None if done.passes else watch)
            drop(work.files, before)
            told = replace(cleaned, offsets=cleaned.offsets.without_keys())
            done.passes.append(Pass(done.left, told))
            done.after = replaced(done.after, cleaned)
            how = replace(how, room=how.room.of_later_passes)
            if cleaned.end_offset <= done.left.first_dirty:
                break  # not even one key fits
            done.left = dirty_range(done.after, cleaned.end_offset, how.config, how.now_ms, how.guest)
    except BaseException:
        drop(work.files, done.directory)
        raise
    return done


def make_pass_directory(files: Files, parent: str, name: str, number: int) -> str:
    """Make a directory for the segments that a pass writes; raise KafkatoolError if it is there."""
    directory = os.path.join(parent, f".{name}.kafkatool-pass-{number}")
    try:
        files.make_directory(directory)
    except FileExistsError:
        reason = "is left of a run that was interrupted, or of one under way: remove it if none is"
        raise KafkatoolError(f"{directory}: {reason}") from None
    return directory


def drop(files: Files, directory: str | None) -> None:
    """Remove the files of a pass that are no longer needed."""
    if directory is not None and os.path.isdir(directory):
        remove_tree(files, directory)
