"""The walk of one log as a job for survey.py; subclasses decide what to do with the batches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from kafkatool.engine.batches.scan import DEFAULT_MAX_BATCH_SIZE
from kafkatool.engine.batches.segment_walk import SegmentWalk
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.engine.jobs.survey import Split
from kafkatool.errors import KafkatoolError


@dataclass(slots=True)
class WalkedStretch:
    """How far the walk of one log came, and why it stopped; subclasses add what it saw."""

    start: int = 0
    stop: int = 0
    done: bool = True
    first_offset: int | None = None
    """First offset of the first good batch; None if there was none."""
    last_offset: int = -1
    last_position: int = 0
    is_behind: bool = False
    """Whether the walk reached the end of the requested range."""
    unreadable_blocks: int = 0
    changed: str | None = None
    vanished: bool = False
    failure: str | None = None


_Stretch = TypeVar("_Stretch", bound=WalkedStretch)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentJob(Generic[_Stretch]):
    """Reads one log once, split by split; only up to the first oddity if nothing before it is known."""

    is_active: bool = False
    guest: Guest = field(default_factory=Guest)
    max_batch_size: int = DEFAULT_MAX_BATCH_SIZE

    def begin(self, position: int) -> _Stretch:
        """Return an empty result that starts here."""
        raise NotImplementedError

    def walk(self, walk: SegmentWalk, found: _Stretch, *, is_fresh: bool) -> _Stretch:
        """Add what lies in a split to the result; if that is fresh, stop at the first oddity."""
        raise NotImplementedError

    def join(self, a: _Stretch, b: _Stretch) -> _Stretch | None:
        """Join two results, `b` beginning where `a` ends; None if `b` depends on more than that."""
        raise NotImplementedError

    def map(self, split: Split, before: _Stretch | None) -> _Stretch:
        """Walk a split: with `before`, from there to the end of the split; else up to the first oddity."""
        found = before or self.begin(split.start)
        guest = replace(self.guest)  # a worker counts its own errors
        try:
            with open_source(split.path, guest) as source:
                walk = SegmentWalk(source, split, self.max_batch_size, is_active=self.is_active)
                walk.position = found.stop
                found = self.walk(walk, found, is_fresh=before is None)
                found.changed = found.changed or source.look_again()
        except FileNotFoundError:
            found.vanished, found.done, found.stop = True, True, split.end
        except KafkatoolError as error:
            found.failure, found.done, found.stop = str(error), True, split.end
        return found

    def merge(self, a: _Stretch, b: _Stretch) -> _Stretch | None:
        """Join two results; None if `b` does not simply continue where `a` ends."""
        if a.failure or a.vanished or a.changed or a.is_behind:
            return a
        goes_on = a.done and a.stop == b.start and (b.first_offset is None or b.first_offset > a.last_offset)
        return self.join(a, b) if goes_on else None

    def is_done(self, result: _Stretch) -> bool:
        return result.done

    def where(self, result: _Stretch) -> int:
        return result.stop
