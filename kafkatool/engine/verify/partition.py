"""Check the files of one partition against each other, after all its logs have been walked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.batches.index_file import index_limit
from kafkatool.engine.batches.indexes import MOST_READ, sibling_file
from kafkatool.engine.directory.log_dir import FileEntry, Segment, SegmentState
from kafkatool.engine.files.source import ByteRange, Guest, open_source, without_hole
from kafkatool.engine.verify.finding import Finding
from kafkatool.engine.verify.index_problems import (
    closing_time_problem,
    offset_index_problems,
    only_wrong_from,
    time_index_problems,
)
from kafkatool.engine.verify.leftovers import excused, leftover_problems, topic_id_problems
from kafkatool.engine.verify.log_dir import checkpoint_problems, file_problem
from kafkatool.engine.verify.log_facts import LogFacts
from kafkatool.engine.verify.place import CheckedPlace, place_finding, was_replaced
from kafkatool.engine.verify.producers import Trail, join_aborted, join_trails
from kafkatool.engine.verify.side_files import (
    epoch_file_problems,
    epoch_order_problems,
    missing_aborts,
    snapshot_problems,
    state_damage,
    txn_index_problems,
)
from kafkatool.engine.verify.walk import NOWHERE
from kafkatool.errors import KafkatoolError
from kafkatool.format import kinds
from kafkatool.format.names import FileState


def partition_findings(
    place: CheckedPlace, logs: dict[int, LogFacts], sampled: dict[int, list[LogFacts]], guest: Guest
) -> Iterator[tuple[int | None, Finding]]:
    """Yield everything that is wrong with a partition, each with the number of the log concerned, if any.

    `logs` has the facts of whole logs by number; `sampled` those of parts, if only parts were read.
    """
    judge = _PartitionJudge(place, logs, guest)
    if place.is_live:
        # A broker may clean or delete files while we read: differences between versions are no contradiction.
        for at, segment in enumerate(place.logs):
            if was_replaced(segment):
                judge.leave_out(at)
                sampled.pop(at, None)
    for at, parts in sampled.items():
        yield from judge.sampled(at, parts)
    if not sampled:
        yield from judge.segments()
        yield from judge.whole_log()
    yield from judge.named_files() if place.is_partial else judge.small_files()
    yield from judge.unreadable_files()


_LARGEST_SMALL_FILE = 64 << 20
_UNKNOWN_SIZE = 1 << 31  # of a log: no position in an index reaches it

_Numbered = Iterator[tuple[int | None, Finding]]


class _PartitionJudge:
    def __init__(self, place: CheckedPlace, logs: dict[int, LogFacts], guest: Guest) -> None:
        self.place = place
        self.logs = logs
        self.guest = guest
        self.replaced: list[str] = []
        self.unreadable: dict[str, ByteRange] = {}
        self.live = [at for at, segment in enumerate(place.logs) if segment.is_live]

    def leave_out(self, at: int) -> None:
        """Leave out a segment that was replaced or deleted meanwhile: the whole log cannot be judged then."""
        log = self.place.logs[at].log
        assert log is not None
        self.replaced.append(log.path)
        self.logs.pop(at, None)

    def _finding(self, at: int | None, file: str, damage: Damage) -> tuple[int | None, Finding]:
        segment = None if at is None else self.place.logs[at]
        return at, place_finding(self.place, file, damage, segment)

    # --- each segment by itself ---------------------------------------------------------------------------

    def sampled(self, at: int, parts: list[LogFacts]) -> _Numbered:
        log = self.place.logs[at].log
        assert log is not None
        for facts in parts:
            for damage in facts.damages:
                yield self._finding(at, log.path, self._bounded(at, facts, damage))
            for kind, damages in (
                (kinds.OFFSET_INDEX, facts.index_damages),
                (kinds.TIME_INDEX, facts.time_damages),
            ):
                for damage in damages:
                    yield self._finding(at, self._sibling(at, kind), damage)

    def segments(self) -> _Numbered:
        for at, facts in sorted(self.logs.items()):
            segment = self.place.logs[at]
            assert segment.log is not None
            for damage in facts.damages:
                yield self._finding(at, segment.log.path, self._bounded(at, facts, damage))
            if facts.more_damages:
                message = f"{facts.more_damages} more damaged places are not listed"
                yield self._finding(at, segment.log.path, replace(facts.damages[-1], message=message))
            if facts.failure or facts.vanished or facts.changed:
                continue
            for kind, damages in (
                (kinds.OFFSET_INDEX, self._offset_index(at, segment, facts)),
                (kinds.TIME_INDEX, self._time_index(at, segment, facts)),
            ):
                for damage in self._judged([*damages], kind, segment):
                    yield self._finding(at, self._sibling(at, kind), damage)

    def _bounded(self, at: int, facts: LogFacts, damage: Damage) -> Damage:
        """Return the damage with the range of affected offsets, as far as its surroundings show it.

        Before the first good batch of a log the range starts at the log's base offset; after the last one it
        ends where the next segment begins.
        """
        first, last, following = damage.first_offset, damage.last_offset, damage.next_good_offset
        is_known = first is not None and last is not None
        if is_known or damage.severity is not Severity.LOSS or at not in self.live:
            return damage
        if first is None and facts.start == 0:
            first = self._lowest(at)
            following = facts.first_offset if following is None else following
        if following is None:
            following = self._base_behind(at)
        last = None if following is None else following - 1
        if first is None or (last is not None and last < first):
            return damage
        return replace(damage, first_offset=first, last_offset=last, next_good_offset=following)

    def _lowest(self, at: int) -> int:
        """Return the first offset that a log may hold."""
        base, number = self.place.logs[at].base_offset, self.live.index(at)
        before = self.logs.get(self.live[number - 1]) if number else None
        return max(base, before.last_offset + 1) if before is not None and before.batches else base

    def _base_behind(self, at: int) -> int | None:
        number = self.live.index(at) + 1
        return self.place.logs[self.live[number]].base_offset if number < len(self.live) else None

    def _sibling(self, at: int, kind: kinds.FileKind) -> str:
        segment = self.place.logs[at]
        entry = segment.file(kind)
        if entry is not None:
            return entry.path
        assert segment.log is not None
        return sibling_file(segment.log.path, f".{kind.name}") or segment.log.path

    def _judged(self, damages: list[Damage], kind: kinds.FileKind, segment: Segment) -> Iterator[Damage]:
        """Judge damage to an index of the active segment by what the next start does with the index.

        A follower that truncates its log leaves the old entries in the file, after the valid ones, and only a
        clean shutdown removes them. After an unclean one a broker rebuilds the index.
        """
        is_active = segment.state is SegmentState.ACTIVE and self.place.log_dir is not None
        is_unclean = is_active and not self.place.was_shut_down_cleanly
        data = self._data(segment, kind) if is_unclean and damages else None
        left_over = NOWHERE if data is None else only_wrong_from(data, damages)
        for damage in damages:
            lies = damage.kind in (FindingClass.BAD_INDEX, FindingClass.STALE_INDEX)
            if lies and is_unclean and damage.position >= left_over:
                message = f"{damage.message}; a broker makes it anew at its next start"
                kind_now = FindingClass.IN_FLIGHT if self.place.is_live else damage.kind
                yield replace(damage, severity=Severity.NOTE, kind=kind_now, message=message)
            else:
                yield self._severe(damage, kind) if lies and is_active else damage

    def _severe(self, damage: Damage, kind: kinds.FileKind) -> Damage:
        """Return index damage with its severity at a start: after a clean shutdown the index is trusted."""
        if kind is kinds.OFFSET_INDEX:
            if self.place.was_shut_down_cleanly:
                message = (
                    f"{damage.message}; after a clean shutdown a broker trusts it to find the end of the log"
                )
                return replace(damage, severity=Severity.NO_START, message=message)
            if self.place.is_live:
                return replace(damage, severity=Severity.NOTE, kind=FindingClass.IN_FLIGHT)
        return damage

    def _offset_index(self, at: int, segment: Segment, facts: LogFacts) -> Iterator[Damage]:
        data = self._data(segment, kinds.OFFSET_INDEX)
        if data is None:
            yield from self._missing(
                segment, kinds.OFFSET_INDEX, "a broker scans the segment to make it anew"
            )
            return
        assert segment.log is not None
        size, log_size = self._size(segment, kinds.OFFSET_INDEX, data), max(segment.log.size, facts.stop)
        is_active = segment.state is SegmentState.ACTIVE
        yield from offset_index_problems(data, size, log_size, is_active=is_active)
        if not _has_bad_offset(facts):
            yield from facts.index_damages

    def _time_index(self, at: int, segment: Segment, facts: LogFacts) -> Iterator[Damage]:
        data = self._data(segment, kinds.TIME_INDEX)
        if data is None:
            effect = "a broker makes an empty one: retention goes by the file's modification time"
            yield from self._missing(segment, kinds.TIME_INDEX, effect)
            return
        is_closed = segment.state is SegmentState.CLOSED
        size = self._size(segment, kinds.TIME_INDEX, data)
        yield from time_index_problems(data, size, is_active=not is_closed)
        if not _has_bad_offset(facts):
            yield from facts.time_damages
        is_whole = len(data) < MOST_READ
        if is_closed and is_whole and facts.batches and not facts.damages and not facts.time_damages:
            damage = closing_time_problem(
                data,
                segment.base_offset,
                facts.max_timestamp,
                facts.max_filled_timestamp,
                facts.last_offset,
            )
            if damage is not None:
                yield damage

    def _missing(self, segment: Segment, kind: kinds.FileKind, effect: str) -> Iterator[Damage]:
        if self.place.is_partial or segment.log is None or segment.log.size == 0 or not segment.is_live:
            return
        if segment.file(kind) is not None:
            return  # it was listed, but is gone since or unreadable
        message = f"there is no .{kind.name} for this log: {effect}"
        damage = state_damage(FindingClass.MISSING_FILE, message, f"an .{kind.name}", "none")
        yield excused(self.place, damage, "a running broker makes it when it needs it")

    def _data(self, segment: Segment, kind: kinds.FileKind) -> bytes | None:
        assert segment.log is not None
        entry = segment.file(kind)
        path = None if entry is None else entry.path
        if entry is None and self.place.is_partial:
            # Only the log was named; the files beside it were checked against it all the same.
            path = sibling_file(segment.log.path, f".{kind.name}")
        return None if path is None else self._content(path, min(MOST_READ, index_limit(segment.log.size)))

    def _size(self, segment: Segment, kind: kinds.FileKind, data: bytes) -> int:
        """Return the size of an index, of which perhaps only the front was read."""
        entry = segment.file(kind)
        return len(data) if entry is None else max(entry.size, len(data))

    def _read(self, entry: FileEntry | None) -> bytes | None:
        return None if entry is None else self._content(entry.path, _LARGEST_SMALL_FILE)

    def _content(self, path: str, limit: int) -> bytes | None:
        """Return up to `limit` bytes of a file; None if it is gone or unreadable, which is remembered."""
        with suppress(FileNotFoundError, KafkatoolError), open_source(path, self.guest) as source:
            data = source.read(0, without_hole(source, limit))
            if not source.unreadable:
                return data
            self.unreadable[path] = source.unreadable[0]
        return None

    def unreadable_files(self) -> _Numbered:
        for path, (start, end) in self.unreadable.items():
            message = "the disk does not give these bytes"
            damage = state_damage(
                FindingClass.UNREADABLE, message, "readable bytes", "an error", position=start, end=end
            )
            yield self._finding(None, path, damage)

    # --- the segments together ----------------------------------------------------------------------------

    def whole_log(self) -> _Numbered:
        if self.replaced:
            return
        facts = [self.logs[at] for at in self.live]
        if not facts or any(f.failure or f.vanished or f.changed for f in facts):
            return
        yield from self._neighbours()
        yield from self._producers()
        yield from self._epochs()
        if self.place.is_partial:
            return
        last = self.place.logs[self.live[-1]]
        log_end = facts[-1].last_offset + 1 if facts[-1].batches else last.base_offset
        if self.place.log_dir is not None and self.place.key is not None and not self.place.is_live:
            for problem in checkpoint_problems(
                self.place.key, self.place.log_dir, self.place.cleaner, log_end
            ):
                yield self._finding(None, problem.path, problem.damage)
        yield from self._late_snapshots(log_end)

    def _neighbours(self) -> _Numbered:
        """Yield overlaps and gaps between the offsets of neighbouring segments."""
        end: int | None = None
        for before, at in zip([None, *self.live], self.live, strict=False):
            segment, facts = self.place.logs[at], self.logs[at]
            assert segment.log is not None
            if end is not None and before is not None:
                damage = self._boundary(before, end, segment.base_offset)
                if damage is not None:
                    yield self._finding(at, segment.log.path, damage)
            if facts.batches:
                end = facts.last_offset + 1

    def _boundary(self, before: int, end: int, base: int) -> Damage | None:
        if base < end:
            message = (
                f"the segment before reaches to offset {end - 1}: offsets {base} to {end - 1} are there twice"
            )
            damage = state_damage(FindingClass.OVERLAP, message, f"a base offset of {end} or above", base)
            return replace(damage, first_offset=base, last_offset=end - 1, next_good_offset=end)
        if base == end or self.logs[before].damages:  # the damage may have held what is missing
            return None
        severity, why = Severity.NOTE, "normal in a compacted log"
        if not self._is_compacted():
            severity = Severity.DEGRADED
            why = "nothing shows that this log was ever compacted: a segment may be missing"
        message = f"no segment holds offsets {end} to {base - 1}: {why}"
        damage = state_damage(FindingClass.GAP, message, f"offset {end}", f"offset {base}", severity=severity)
        return replace(damage, first_offset=end, last_offset=base - 1, next_good_offset=base)

    def _is_compacted(self) -> bool:
        """Return whether anything shows that compaction may have removed records from this log."""
        policies = {} if self.place.view is None else self.place.view.policies
        topic = self.place.partition.topic or ""
        if "compact" in policies.get(topic, "") or self.place.key in self.place.cleaner:
            return True
        facts = [self.logs[at] for at in self.live]
        return any(not f.is_whole or f.has_legacy for f in facts) or any(not f.batches for f in facts[:-1])

    def _producers(self) -> _Numbered:
        """Replay the producers from segment to segment, and check snapshots and aborts against the replay."""
        snapshots = {e.offset: e for e in self._small(kinds.PRODUCER_SNAPSHOT)}
        trails: dict[int, Trail] | None = {}
        firsts = [self.logs[at].first_offset for at in self.live]
        first = next((o for o in firsts if o is not None), self.place.logs[self.live[-1]].base_offset)
        is_whole = True
        for at in self.live:
            segment, facts = self.place.logs[at], self.logs[at]
            yield from self._snapshot(snapshots.pop(segment.base_offset, None), trails, first, is_whole)
            before = trails or {}
            yield from self._aborts(at, segment, facts, before, is_complete=trails is not None)
            is_whole = is_whole and facts.is_whole
            # After damage, the effect of the lost batches is unknown.
            trails = None if trails is None or facts.damages else join_trails(trails, facts.producers)
            last = facts.last_offset + 1 if facts.batches else segment.base_offset
        yield from self._snapshot(snapshots.pop(last, None), trails, first, is_whole)
        for entry in snapshots.values():
            yield from self._snapshot(entry, None, first, is_whole)

    def _snapshot(
        self, entry: FileEntry | None, trails: dict[int, Trail] | None, first: int, is_whole: bool
    ) -> _Numbered:
        data = self._read(entry)
        if entry is None or data is None or (self.place.is_live and not data):
            return
        for damage in snapshot_problems(data, entry.offset or 0, trails, first, is_whole):
            yield self._finding(None, entry.path, damage)

    def _aborts(
        self, at: int, segment: Segment, facts: LogFacts, before: dict[int, Trail], *, is_complete: bool
    ) -> _Numbered:
        aborted = join_aborted(before, facts.aborted)
        data = self._data(segment, kinds.TXN_INDEX)
        path = self._sibling(at, kinds.TXN_INDEX)
        if data is not None:
            known = facts if is_complete else replace(facts, holes=1)
            if facts.damages or self.place.is_live:
                # The marker may be in the unreadable part, or may have been written after the log was read.
                known = replace(facts, holes=1, last_offset=NOWHERE)
            for damage in txn_index_problems(data, segment.base_offset, known, aborted):
                yield self._finding(at, path, damage)
        elif not self.place.is_partial:
            for damage in missing_aborts([], aborted, 0):
                yield self._finding(at, path, replace(damage, kind=FindingClass.MISSING_FILE))

    def _late_snapshots(self, log_end: int) -> _Numbered:
        for entry in self._small(kinds.PRODUCER_SNAPSHOT):
            if entry.offset is not None and entry.offset > log_end and not self.place.is_live:
                message = f"it is of offset {entry.offset}, behind the end of the log: a broker deletes it"
                damage = state_damage(
                    FindingClass.BAD_SNAPSHOT,
                    message,
                    f"{log_end} at most",
                    entry.offset,
                    severity=Severity.NOTE,
                )
                yield self._finding(None, entry.path, damage)

    def _epochs(self) -> _Numbered:
        runs: list[list[int]] = []
        owners: list[int] = []
        for at in self.live:
            runs += self.logs[at].epochs
            owners += [at] * len(self.logs[at].epochs)
        for damage in epoch_order_problems(runs):
            owner = next(at for run, at in zip(runs, owners, strict=True) if run[1] == damage.first_offset)
            log = self.place.logs[owner].log
            assert log is not None
            yield self._finding(owner, log.path, damage)
        if self.place.is_partial or any(self.logs[at].damages for at in self.live):
            return
        entry = next(iter(self._small(kinds.LEADER_EPOCHS)), None)
        data = self._read(entry)
        if entry is not None and data is not None:
            for damage in epoch_file_problems(data, runs):
                yield self._finding(None, entry.path, damage)
        elif entry is None and any(run[0] >= 0 for run in runs):
            message = "there is no leader-epoch-checkpoint: a broker makes one of the segments it scans only"
            path = os.path.join(self.place.partition.path, kinds.LEADER_EPOCHS.name)
            yield self._finding(
                None, path, state_damage(FindingClass.MISSING_FILE, message, "a file", "none")
            )

    # --- small files and leftovers ------------------------------------------------------------------------

    def _small(self, kind: kinds.FileKind) -> Iterable[FileEntry]:
        return [
            entry
            for entry in self.place.partition.other_files
            if entry.kind is kind and entry.state is FileState.LIVE
        ]

    def named_files(self) -> _Numbered:
        """Check small files that were named themselves, and indexes without their log."""
        yield from self._indexes_alone()
        for entry in self.place.partition.other_files:
            if entry.kind.read is not None:
                damage = file_problem(entry, self.guest)
                if damage is not None and entry.kind is not kinds.PRODUCER_SNAPSHOT:
                    yield self._finding(None, entry.path, damage)
                elif damage is not None and not self.live:
                    kind = FindingClass.BAD_SNAPSHOT
                    yield self._finding(
                        None, entry.path, replace(damage, kind=kind, severity=Severity.DEGRADED)
                    )

    def _indexes_alone(self) -> _Numbered:
        """Check indexes without their log, of which only the order of entries can be judged."""
        for segment in self.place.partition.segments:
            for entry in () if segment.log is not None else segment.files:
                data = self._read(entry) or b""
                if entry.kind is kinds.OFFSET_INDEX:
                    damages = list(offset_index_problems(data, entry.size, _UNKNOWN_SIZE, is_active=True))
                elif entry.kind is kinds.TIME_INDEX:
                    damages = list(time_index_problems(data, entry.size, is_active=True))
                else:
                    damage = file_problem(entry, self.guest)
                    damages = [] if damage is None else [replace(damage, kind=FindingClass.BAD_INDEX)]
                for one in damages:
                    yield self._finding(None, entry.path, one)

    def small_files(self) -> _Numbered:
        for kind in (kinds.PARTITION_METADATA, kinds.QUORUM_STATE):
            for entry in self._small(kind):
                damage = file_problem(entry, self.guest)
                if damage is not None:
                    yield self._finding(None, entry.path, damage)
        if not self.logs and not self.replaced:  # sampled: the epochs were not checked against the log
            for entry in self._small(kinds.LEADER_EPOCHS):
                for damage in epoch_file_problems(self._read(entry) or b"", []):
                    yield self._finding(None, entry.path, damage)
        for problem in (*topic_id_problems(self.place), *leftover_problems(self.place)):
            yield self._finding(None, problem.path, problem.damage)


def _has_bad_offset(facts: LogFacts) -> bool:
    """Return whether the log has a wrong offset: then the index is not to blame for a contradiction."""
    return any(damage.kind is FindingClass.BAD_OFFSET for damage in facts.damages)
