"""Several passes of the cleaner, each over what the one before it left."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace

from kafkatool.engine.compaction.cleanable_log import CleanableLog
from kafkatool.engine.compaction.cleaned_segment import Output
from kafkatool.engine.compaction.cleaner import Cleaned, Cleaning, Watch, clean, replaced
from kafkatool.engine.compaction.dirty_range import DirtyRange, dirty_range
from kafkatool.engine.files.disk import Files
from kafkatool.errors import KafkatoolError


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass that was run."""

    dirty: DirtyRange
    cleaned: Cleaned


@dataclass(slots=True)
class Compacted:
    """What some passes made of a log. `dirty`: the range at the start; `left`: the one that is left."""

    before: CleanableLog
    after: CleanableLog
    dirty: DirtyRange
    left: DirtyRange
    passes: list[Pass] = field(default_factory=list)
    directory: str | None = None
    """Where the segments of the last pass are."""

    @property
    def written(self) -> list[int]:
        """The bases of the segments that passes wrote: all of `after` that is not a file of `before`."""
        return _bases_apart(self.after, self.before)

    @property
    def gone(self) -> list[int]:
        """The bases of the old segments that are no longer in the log, whichever pass took them in."""
        return _bases_apart(self.before, self.after)


def _bases_apart(log: CleanableLog, other: CleanableLog) -> list[int]:
    """The bases of the segments of one log whose files are not those of the other."""
    paths = {one.path for one in other.segments}
    return [one.base_offset for one in log.segments if one.path not in paths]


@dataclass(frozen=True, slots=True)
class PassWork:
    """Where passes write: into directories of their own under `parent`; None: the only pass is counted."""

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
    """Run passes, at most so many, until nothing is left to clean; raise CleanerStops where one gives up.

    `watch` sees what the first pass decides. Raises KeysDoNotFit before that, if at all.
    """
    dirty = dirty_range(log, checkpoint, how.config, how.now_ms, how.guest)
    done = Compacted(log, log, dirty, dirty)
    try:
        while done.left.cleanable_bytes > 0 and (most is None or len(done.passes) < most):
            directory = _make_directory(work, len(done.passes))
            output = Output(work.files, directory)
            before, done.directory = done.directory, directory
            cleaned = clean(done.after, done.left, how, output, None if done.passes else watch)
            drop(work.files, before)
            told = replace(cleaned, offsets=cleaned.offsets.without_keys())
            done.passes.append(Pass(done.left, told))
            done.after = replaced(done.after, cleaned)
            how = replace(how, room=how.room.of_later_passes)
            if cleaned.end_offset <= done.left.first_dirty:
                break  # not a single key has room
            done.left = dirty_range(done.after, cleaned.end_offset, how.config, how.now_ms, how.guest)
    except BaseException:
        drop(work.files, done.directory)
        raise
    return done


def _make_directory(work: PassWork, number: int) -> str | None:
    if work.parent is None:
        return None
    directory = os.path.join(work.parent, f".{work.name}.kafkatool-pass-{number}")
    try:
        work.files.make_directory(directory)
    except FileExistsError:
        reason = "is left of a run that was interrupted, or of one under way: remove it if none is"
        raise KafkatoolError(f"{directory}: {reason}") from None
    return directory


def drop(files: Files, directory: str | None) -> None:
    """Remove what a pass wrote, now that nobody needs it."""
    if directory is None or not os.path.isdir(directory):
        return
    for name in os.listdir(directory):
        files.unlink(os.path.join(directory, name))
    files.remove_directory(directory)
