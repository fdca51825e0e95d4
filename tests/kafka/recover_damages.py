"""Ways to damage the log of a killed broker by hand: what a broker survives, and what it does not."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from kafkatool.format import offset_index
from kafkatool.format.batch import NewRecord, read_header
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.names import segment_file
from kafkatool.format.offset_index import OffsetEntry
from kafkatool.format.txn_index import AbortedTxn, write_entries
from tests.mutations import change, flip, put

TOPIC = "damaged"
INTERVAL = 300
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"


class Killed(NamedTuple):
    """One partition of the killed broker, to be damaged."""

    path: Path
    bases: list[int]

    def file(self, number: int, extension: str) -> Path:
        """A file of the segment with this number, from either end."""
        return self.path / segment_file(self.bases[number], extension)

    def batches(self, number: int) -> list[tuple[int, int]]:
        """Position and size of every batch of a segment."""
        data, position, found = self.file(number, ".log").read_bytes(), 0, []
        while position < len(data):
            size = read_header(data, position).size
            found.append((position, size))
            position += size
        return found


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


# --- the damages: what a broker survives --------------------------------------------------------------


def nothing(log: Killed) -> None:
    """As it was killed."""


def cut_in_a_header(log: Killed) -> None:
    cut(log.file(-1, ".log"), log.batches(-1)[-1][0] + 10)


def cut_in_a_body(log: Killed) -> None:
    cut(log.file(-1, ".log"), log.batches(-1)[-1][0] + 70)


def zeros_behind(log: Killed) -> None:
    change(log.file(-1, ".log"), lambda data: data.extend(bytes(500)))


def zeroed_tail(log: Killed) -> None:
    position, size = log.batches(-1)[-1]
    put(log.file(-1, ".log"), position + 5, bytes(size - 5))


def bit_above_the_recovery_point(log: Killed) -> None:
    flip(log.file(3, ".log"), log.batches(3)[1][0] + 100, 4)


def bit_below_the_recovery_point(log: Killed) -> None:
    flip(log.file(0, ".log"), log.batches(0)[1][0] + 100, 4)


def length_above_the_recovery_point(log: Killed) -> None:
    put(log.file(3, ".log"), log.batches(3)[1][0] + 8, (7).to_bytes(4, "big"))


def unknown_magic_above_the_recovery_point(log: Killed) -> None:
    """Outside the checksum: the batch stays, and no consumer reads it."""
    put(log.file(3, ".log"), log.batches(3)[1][0] + 16, b"\3")


def unknown_magic_in_the_active_segment(log: Killed) -> None:
    put(log.file(-1, ".log"), log.batches(-1)[-1][0] + 16, b"\x7f")


def missing_offset_index_below(log: Killed) -> None:
    log.file(1, ".index").unlink()


def missing_time_index_below(log: Killed) -> None:
    log.file(1, ".timeindex").unlink()


def all_indexes_missing(log: Killed) -> None:
    for path in log.path.glob("*index"):
        path.unlink()


def short_indexes(log: Killed) -> None:
    for number in (1, 3):
        cut(log.file(number, ".index"), 3)
        cut(log.file(number, ".timeindex"), 13)


def lying_index_above(log: Killed) -> None:
    lies = offset_index.write_entries([OffsetEntry(1, 77), OffsetEntry(2, 1 << 20)])
    log.file(3, ".index").write_bytes(lies)
    log.file(-1, ".index").write_bytes(lies)


def lying_index_below(log: Killed) -> None:
    log.file(1, ".index").write_bytes(offset_index.write_entries([OffsetEntry(2, 7)]))


def complete_swap(log: Killed) -> None:
    for extension in (".log", ".index", ".timeindex"):
        path = log.file(1, extension)
        shutil.copy(path, f"{path}.swap")


def swap_of_indexes_only(log: Killed) -> None:
    for extension in (".index", ".timeindex"):
        path = log.file(1, extension)
        path.rename(f"{path}.swap")


def swap_beside_cleaned(log: Killed) -> None:
    for extension in (".log", ".index", ".timeindex"):
        shutil.copy(log.file(1, extension), f"{log.file(1, extension)}.cleaned")
        shutil.copy(log.file(2, extension), f"{log.file(2, extension)}.swap")


def deleted_files(log: Killed) -> None:
    for path in list(log.path.glob(f"{log.bases[1]:020d}.*")):
        shutil.copy(path, f"{path}.deleted")


def wrong_transaction_index(log: Killed) -> None:
    wrong = AbortedTxn(0, 7, 0, log.bases[1] - 1, log.bases[1])
    log.file(1, ".txnindex").write_bytes(write_entries([wrong]))


def garbled_snapshots(log: Killed) -> None:
    for path in log.path.glob("*.snapshot"):
        flip(path, -1, 4)


def no_snapshots(log: Killed) -> None:
    for path in log.path.glob("*.snapshot"):
        path.unlink()


def no_leader_epochs(log: Killed) -> None:
    (log.path / "leader-epoch-checkpoint").unlink()


def empty_leader_epochs(log: Killed) -> None:
    (log.path / "leader-epoch-checkpoint").write_bytes(b"")


def orphaned_index(log: Killed) -> None:
    (log.path / segment_file(99_999, ".index")).write_bytes(bytes(8))


def first_segments_gone(log: Killed) -> None:
    """As retention leaves it; the snapshot at the base of what is left lies at the start of the log."""
    for number in (0, 1):
        for path in log.path.glob(f"{log.bases[number]:020d}.*"):
            path.unlink()


def a_log_lost_below(log: Killed) -> None:
    log.file(1, ".log").unlink()


def a_log_lost_above(log: Killed) -> None:
    log.file(3, ".log").unlink()


def an_emptied_log(log: Killed) -> None:
    cut(log.file(3, ".log"), 0)


def last_offset_far_above(log: Killed) -> None:
    position, _size = log.batches(-1)[-1]
    put(log.file(-1, ".log"), position, (1 << 33).to_bytes(8, "big"))


def offsets_that_do_not_rise(log: Killed) -> None:
    """Every batch of a segment at its first offset: the second index entry does not lie above the first."""
    for position, _size in log.batches(3):
        put(log.file(3, ".log"), position, log.bases[3].to_bytes(8, "big"))


def offsets_that_do_not_rise_behind_an_entry_at_the_base(log: Killed) -> None:
    """As before, but the first index entry is for the base offset itself: a batch of one record."""
    entries = 0
    unindexed = 0
    for position, size in log.batches(3):
        put(log.file(3, ".log"), position, log.bases[3].to_bytes(8, "big"))
        if unindexed > INTERVAL:
            entries, unindexed = entries + 1, 0
            if entries == 1:
                put(log.file(3, ".log"), position, single_record(size, log.bases[3]))
        unindexed += size


def single_record(size: int, offset: int) -> bytes:
    """A batch of one record that is exactly this large."""
    bare = len(write_batch([NewRecord(None, b"", 0)]))
    for padding in range(size - bare - 3, size - bare + 1):
        batch = write_batch(
            [NewRecord(None, b"x" * padding, 0)], base_offset=offset, partition_leader_epoch=0
        )
        if len(batch) == size:
            return batch
    raise AssertionError("no such batch")


def no_recovery_point(log: Killed) -> None:
    """Its line is left out of the checkpoint."""


def a_later_log_start(log: Killed) -> None:
    """The log-start checkpoint lies inside the second segment."""


def a_log_start_above_the_end(log: Killed) -> None:
    """The log-start checkpoint lies behind the last record: the broker throws all of it away."""


def a_log_start_above_the_end_and_no_epochs(log: Killed) -> None:
    (log.path / "leader-epoch-checkpoint").unlink()


SURVIVED = (
    nothing,
    cut_in_a_header,
    cut_in_a_body,
    zeros_behind,
    zeroed_tail,
    bit_above_the_recovery_point,
    bit_below_the_recovery_point,
    length_above_the_recovery_point,
    unknown_magic_above_the_recovery_point,
    unknown_magic_in_the_active_segment,
    missing_offset_index_below,
    missing_time_index_below,
    all_indexes_missing,
    short_indexes,
    lying_index_above,
    lying_index_below,
    complete_swap,
    swap_of_indexes_only,
    swap_beside_cleaned,
    deleted_files,
    wrong_transaction_index,
    garbled_snapshots,
    no_snapshots,
    no_leader_epochs,
    empty_leader_epochs,
    orphaned_index,
    first_segments_gone,
    a_log_lost_below,
    a_log_lost_above,
    an_emptied_log,
    last_offset_far_above,
    offsets_that_do_not_rise,
    offsets_that_do_not_rise_behind_an_entry_at_the_base,
    no_recovery_point,
    a_later_log_start,
    a_log_start_above_the_end,
    a_log_start_above_the_end_and_no_epochs,
)
THROWN_AWAY = (a_log_start_above_the_end, a_log_start_above_the_end_and_no_epochs)


# The broker leaves the entries it made before it gave up behind the end of the index, where it does not look.
STALE = {
    offsets_that_do_not_rise.__name__,
    offsets_that_do_not_rise_behind_an_entry_at_the_base.__name__,
}


# --- and what it does not -----------------------------------------------------------------------------


def offset_below_the_base(log_dir: Path, log: Killed) -> None:
    put(log.file(-1, ".log"), log.batches(-1)[1][0], bytes(8))


def malformed_leader_epochs(log_dir: Path, log: Killed) -> None:
    (log.path / "leader-epoch-checkpoint").write_text("0\n1\n0 0 0\n")


def recovery_points_with_a_wrong_count(log_dir: Path, log: Killed) -> None:
    (log_dir / RECOVERY_POINTS).write_text(f"0\n5\n{TOPIC} 0 0\n")


REFUSED = (offset_below_the_base, malformed_leader_epochs, recovery_points_with_a_wrong_count)
