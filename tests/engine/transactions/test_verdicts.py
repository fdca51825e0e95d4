"""An open transaction is aborted by nobody's advice unless Kafka itself would call it hanging."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kafkatool.engine.batches.damage import FindingClass, Severity
from kafkatool.engine.cluster.transactional_ids import CoordinatorState, TransactionalId
from kafkatool.engine.directory.log_dir import read_log_dir
from kafkatool.engine.transactions.ends import REMEMBERED_MS, TransactionEnd, find_ends
from kafkatool.engine.transactions.open_transactions import OpenTransaction
from kafkatool.engine.transactions.verdicts import (
    ABORT_CHECK_MS,
    CLOCKS_APART_MS,
    HANGING_AFTER_MS,
    JudgedTransaction,
    TransactionVerdict,
    TransactionVerdicts,
    judge_transaction,
)
from kafkatool.format.batch import MAX_INT32, NewRecord
from kafkatool.format.release import Release
from kafkatool.format.state.producer_snapshot import ProducerState, write_snapshot
from kafkatool.format.state.properties import MetaProperties, write_meta_properties
from tests.engine.partitions_to_verify import write_metadata
from tests.engine.transaction_logs import LogMaker, write_logs
from tests.engine.transaction_states import state, write_all_states, write_states
from tests.logs import GUEST, TIME

OLD = TIME + 2 * HANGING_AFTER_MS
TIMEOUT = 60_000
OPEN = OpenTransaction("orders", 0, "/d/orders-0", 7, 3, 18, TIME - 5, TIME, 20)
HERE = frozenset({("orders", 0)})
ABORT = "abort --topic orders --partition 0 --start-offset 18"


def owner(state: str = "Ongoing", epoch: int = 3, **fields: object) -> TransactionalId:
    known = TransactionalId("pay", epoch, state, TIME, 7, TIMEOUT, TIME - 10, HERE, 2)
    return known._replace(**fields)  # type: ignore[arg-type]


def end(*, is_abort: bool = False, **fields: object) -> TransactionEnd:
    """Of the same transaction in another partition, from transaction version 2 on."""
    seen = TransactionEnd("/d/orders-1", ("orders", 1), 4, 7, 4, 3, is_abort, TIME + 20)
    return seen._replace(**fields)  # type: ignore[arg-type]


def judged(
    known: TransactionalId | None = None,
    *ends: TransactionEnd,
    now_ms: int = OLD,
    missing: tuple[int, ...] = (),
    release: Release | None = None,
) -> JudgedTransaction:
    ids = {} if known is None else {7: known}
    return judge_transaction(OPEN, CoordinatorState(ids, missing, release), lambda _: ends, now_ms)


def nobody_asks(_: OpenTransaction) -> list[TransactionEnd]:
    raise AssertionError("other logs need not be read")


# --- the coordinator knows it ---------------------------------------------------------------------------


def test_a_transaction_within_its_timeout_is_in_progress_and_nothing_is_advised() -> None:
    for now in (TIME, TIME + 5_000, TIME - 10 + TIMEOUT):
        one = judged(owner(), now_ms=now)
        assert (one.verdict, one.fix) == (TransactionVerdict.IN_PROGRESS, None)
        assert one.ends_by_ms == TIME - 10 + TIMEOUT + ABORT_CHECK_MS
        assert one.severity is Severity.NOTE


def test_one_past_its_timeout_will_be_aborted_and_its_dead_producer_can_be_terminated() -> None:
    one = judged(owner(), now_ms=TIME - 10 + TIMEOUT + 1)
    assert one.verdict is TransactionVerdict.WILL_BE_ABORTED
    assert one.fix is not None
    assert "forceTerminateTransaction --transactionalId pay" in one.fix


@pytest.mark.parametrize(("release", "has_one"), [(Release.V4_0, False), (Release.V4_1, True), (None, True)])
def test_a_release_without_the_command_is_not_told_to_use_it(release: Release | None, has_one: bool) -> None:
    assert (judged(owner(), release=release).fix is not None) is has_one


def test_a_later_transaction_of_the_same_producer_is_not_to_be_terminated_for_this_one() -> None:
    one = judged(owner(epoch=4))
    assert (one.verdict, one.fix) == (TransactionVerdict.WILL_BE_ABORTED, None)


def test_a_two_phase_commit_has_no_end_that_a_clock_knows() -> None:
    one = judged(owner(timeout_ms=MAX_INT32), now_ms=TIME + 10**12)
    assert (one.verdict, one.ends_by_ms, one.fix) == (TransactionVerdict.IN_PROGRESS, None, None)


@pytest.mark.parametrize(
    ("state", "verdict"),
    [
        ("PrepareCommit", TransactionVerdict.WILL_BE_COMMITTED),
        ("PrepareAbort", TransactionVerdict.WILL_BE_ABORTED),
        ("PrepareEpochFence", TransactionVerdict.WILL_BE_ABORTED),
    ],
)
def test_what_a_coordinator_has_decided_it_does_itself(state: str, verdict: TransactionVerdict) -> None:
    one = judged(owner(state, epoch=4))
    assert (one.verdict, one.fix) == (verdict, None)


def test_no_other_log_is_read_where_the_coordinator_knows_or_it_is_young() -> None:
    known = CoordinatorState({7: owner()}, ())
    judge_transaction(OPEN, known, nobody_asks, OLD)
    judge_transaction(OPEN, CoordinatorState({}, ()), nobody_asks, TIME + HANGING_AFTER_MS)


# --- nobody knows it ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "known",
    [
        None,
        owner(partitions=frozenset({("orders", 1)})),
        owner("Empty", partitions=frozenset()),
        owner("CompleteAbort", epoch=4, partitions=frozenset()),
        owner("CompleteAbort", version=1, partitions=frozenset()),
    ],
)
def test_what_no_coordinator_lists_is_hanging_once_it_is_older_than_15_minutes(
    known: TransactionalId | None,
) -> None:
    one = judged(known, now_ms=TIME + HANGING_AFTER_MS + 1)
    assert (one.verdict, one.severity) == (TransactionVerdict.HANGING, Severity.DEGRADED)
    assert one.fix is not None
    assert one.fix.endswith(ABORT)


def test_until_then_its_coordinator_is_to_be_asked() -> None:
    one = judged(now_ms=TIME + HANGING_AFTER_MS)
    assert one.verdict is TransactionVerdict.ASK_COORDINATOR
    assert "find-hanging" in (one.fix or "")


def test_a_clock_that_runs_ahead_makes_nothing_hang() -> None:
    assert judged(now_ms=TIME - 10**9).verdict is TransactionVerdict.ASK_COORDINATOR


def test_where_a_partition_of_the_state_is_missing_its_coordinator_is_to_be_asked() -> None:
    one = judged(missing=(3, 4))
    assert one.verdict is TransactionVerdict.ASK_COORDINATOR
    assert "find-hanging" in (one.fix or "")
    assert "3, 4" in one.why
    assert judged(owner("Empty", partitions=frozenset()), missing=(3,)).verdict is TransactionVerdict.HANGING


def test_where_the_state_is_older_than_the_transaction_its_coordinator_is_to_be_asked() -> None:
    one = judged(owner("Empty", epoch=2, partitions=frozenset()))
    assert one.verdict is TransactionVerdict.ASK_COORDINATOR
    assert "find-hanging" in (one.fix or "")


# --- its marker is somewhere else -----------------------------------------------------------------------


@pytest.mark.parametrize("known", [None, owner("Empty", epoch=4, partitions=frozenset())])
def test_what_another_partition_shows_as_committed_is_never_aborted(known: TransactionalId | None) -> None:
    one = judged(known, end())
    assert (one.verdict, one.fix) == (TransactionVerdict.MARKER_LOST, None)
    assert one.severity is Severity.DEGRADED
    assert "offset 4 of /d/orders-1" in one.why


def test_what_its_coordinator_has_completed_as_a_commit_is_never_aborted() -> None:
    for now_ms in (TIME, OLD):
        one = judged(owner("CompleteCommit", epoch=4, partitions=frozenset()), now_ms=now_ms)
        assert (one.verdict, one.fix) == (TransactionVerdict.MARKER_LOST, None)


def test_what_a_coordinator_has_left_behind_has_ended_nobody_knows_how() -> None:
    for known in (owner("Ongoing", epoch=6, partitions=frozenset()), owner("Empty", producer_id=8)):
        one = judged(known)
        assert (one.verdict, one.fix) == (TransactionVerdict.MARKER_LOST, None)


def test_a_commit_of_another_transaction_proves_nothing() -> None:
    for other in (
        end(producer_epoch=5, data_epoch=4),
        end(producer_epoch=3, data_epoch=2),
        end(is_abort=True),
    ):
        assert judged(None, other._replace(timestamp_ms=TIME - CLOCKS_APART_MS - 1)).fix is not None


def test_where_transactions_share_an_epoch_a_commit_after_the_last_batch_may_be_its_own() -> None:
    one = judged(None, end(producer_epoch=3, timestamp_ms=TIME))
    assert (one.verdict, one.fix) == (TransactionVerdict.MARKER_LOST, None)


def test_a_clients_clock_that_is_ahead_does_not_make_its_commit_somebody_elses() -> None:
    for before_ms in (1, CLOCKS_APART_MS):
        one = judged(None, end(producer_epoch=3, timestamp_ms=TIME - before_ms))
        assert (one.verdict, one.fix) == (TransactionVerdict.ASK_COORDINATOR, None)
    assert judged(None, end(producer_epoch=3, timestamp_ms=TIME - CLOCKS_APART_MS - 1)).fix is not None


@pytest.mark.parametrize("is_abort", [False, True])
def test_another_copy_of_the_partition_shows_its_end(is_abort: bool) -> None:
    copy = end(is_abort=is_abort, where="/e/orders-0", place=("orders", 0), offset=19)
    lost, further = judged(None, copy), judged(None, copy._replace(offset=20))
    assert {lost.verdict, further.verdict} == {TransactionVerdict.MARKER_LOST}
    assert (lost.fix, further.fix) == (None, None)
    assert (lost.severity, further.severity) == (Severity.DEGRADED, Severity.NOTE)


# --- by what lies on disks ------------------------------------------------------------------------------


def verdicts_of(log_dir: Path, *others: Path, at_ms: int | None = None) -> list[JudgedTransaction]:
    from kafkatool.engine.transactions.open_transactions import read_open_transactions

    dirs = [read_log_dir(str(path)) for path in (log_dir, *others)]
    verdicts = TransactionVerdicts(dirs, [], GUEST, at_ms)
    (partition,) = (one for one in dirs[0].partitions if one.directory == "orders-0")
    return verdicts.of(dirs[0], read_open_transactions(partition, GUEST) or [])


def place(log_dir: Path, log: LogMaker, name: str = "orders-0") -> Path:
    return write_logs(log_dir, {0: bytes(log.data)}, name=name)


def test_the_clock_is_the_newest_time_on_the_disk_unless_another_is_given(tmp_path: Path) -> None:
    place(tmp_path, LogMaker().plain().txn(7))
    write_all_states(tmp_path)
    for seconds, verdict in ((60, TransactionVerdict.ASK_COORDINATOR), (3600, TransactionVerdict.HANGING)):
        for log in tmp_path.rglob("*.log"):
            os.utime(log, (0, TIME // 1000))
        os.utime(tmp_path / "__transaction_state-9" / f"{0:020d}.log", (0, TIME // 1000 + seconds))
        (one,) = verdicts_of(tmp_path)
        assert (one.verdict, one.now_ms) == (verdict, TIME + 1000 * seconds)
    (one,) = verdicts_of(tmp_path, at_ms=TIME + 1)
    assert (one.verdict, one.now_ms) == (TransactionVerdict.ASK_COORDINATOR, TIME + 1)


def test_only_a_state_that_is_here_whole_proves_that_nobody_knows_it(tmp_path: Path) -> None:
    place(tmp_path, LogMaker().txn(7))
    write_all_states(tmp_path, state("other", 1), state("another", 2))
    assert [one.verdict for one in verdicts_of(tmp_path)] == [TransactionVerdict.HANGING]
    path = tmp_path / "__transaction_state-0" / f"{0:020d}.log"
    whole = path.read_bytes()
    path.write_bytes(whole[:70] + bytes([whole[70] ^ 1]) + whole[71:] + whole)
    assert [one.verdict for one in verdicts_of(tmp_path)] == [TransactionVerdict.ASK_COORDINATOR]


def test_the_metadata_says_which_partitions_of_the_state_there_are_and_which_are_in_sync(
    tmp_path: Path,
) -> None:
    place(tmp_path, LogMaker().txn(7))
    write_states(tmp_path)
    owner = write_meta_properties(MetaProperties(1, "MkU3OEVBNTcwNTJENDM2Qg", 1, None))
    (tmp_path / "meta.properties").write_bytes(owner)
    assert [one.verdict for one in verdicts_of(tmp_path)] == [TransactionVerdict.ASK_COORDINATOR]
    for isr, verdict in (([1], TransactionVerdict.HANGING), ([2, 3], TransactionVerdict.ASK_COORDINATOR)):
        shutil.rmtree(tmp_path / "__cluster_metadata-0", ignore_errors=True)
        write_metadata(tmp_path / "__cluster_metadata-0", isr, name="__transaction_state")
        assert [one.verdict for one in verdicts_of(tmp_path)] == [verdict]


def test_where_more_ids_are_than_are_taken_none_proves_that_nobody_knows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place(tmp_path, LogMaker().txn(7))
    write_all_states(tmp_path, state("other", 1))
    monkeypatch.setattr("kafkatool.engine.cluster.transactional_ids.MOST_IDS", 1)
    assert [one.verdict for one in verdicts_of(tmp_path)] == [TransactionVerdict.ASK_COORDINATOR]


def test_a_marker_in_another_partition_is_found(tmp_path: Path) -> None:
    place(tmp_path, LogMaker().txn(7).txn(8))
    place(tmp_path, LogMaker().txn(7).commit(7).txn(8).abort(8), "orders-1")
    write_all_states(tmp_path)
    lost, hanging = verdicts_of(tmp_path)
    assert (lost.verdict, lost.fix) == (TransactionVerdict.MARKER_LOST, None)
    assert (hanging.verdict, hanging.transaction.producer_id) == (TransactionVerdict.HANGING, 8)


def test_a_marker_in_another_copy_is_found(tmp_path: Path) -> None:
    place(tmp_path / "1", LogMaker().txn(7))
    place(tmp_path / "2", LogMaker().txn(7).abort(7))
    write_all_states(tmp_path / "1")
    (one,) = verdicts_of(tmp_path / "1", tmp_path / "2")
    assert (one.verdict, one.is_behind, one.fix) == (TransactionVerdict.MARKER_LOST, True, None)


def test_what_holds_the_last_stable_offset_becomes_a_finding(tmp_path: Path) -> None:
    place(tmp_path, LogMaker().txn(7).txn(8).txn(9))
    write_all_states(tmp_path, *(_of_orders(f"{number}", number) for number in (7, 9)))
    log_dir = read_log_dir(str(tmp_path))
    (partition,) = (one for one in log_dir.partitions if one.directory == "orders-0")
    found = TransactionVerdicts([log_dir], [], GUEST, OLD).findings(partition, log_dir)
    assert found is not None
    assert [(one.damage.first_offset, one.damage.severity) for one in found] == [
        (0, Severity.NOTE),
        (1, Severity.DEGRADED),
    ]
    assert {one.damage.kind for one in found} == {FindingClass.OPEN_TRANSACTION}
    assert [one.fix is not None and "--start-offset 1" in one.fix for one in found] == [False, True]
    assert TransactionVerdicts([log_dir], [], GUEST).findings(partition, log_dir, most_bytes=10) is None


def _of_orders(name: str, producer_id: int) -> NewRecord:
    partitions = [{"topic": "orders", "partitionIds": [0]}]
    return state(name, producer_id, transactionPartitions=partitions, transactionTimeoutMs=MAX_INT32)


# --- which logs are read for markers --------------------------------------------------------------------


def ends_in_three_segments(
    tmp_path: Path, *, remembered: list[int], took_s: int = 60, since_ms: int = TIME
) -> list[int]:
    """The offsets of the markers of producer 7 that are found; one is in the second of three segments."""
    second = LogMaker(offset=2).txn(7).commit(7)
    logs = {0: LogMaker().plain(2).data, 2: second.data, 4: LogMaker(offset=4).plain().data}
    directory = write_logs(tmp_path, {base: bytes(data) for base, data in logs.items()})
    for number, base in enumerate(logs):
        when = TIME // 1000 + number * took_s
        os.utime(directory / f"{base:020d}.log", (when, when))
    rows = [ProducerState(number, 0, 0, 2, 0, TIME, 0, -1) for number in remembered]
    (directory / f"{4:020d}.snapshot").write_bytes(write_snapshot(rows))
    partitions = read_log_dir(str(tmp_path)).partitions
    return [one.offset or 0 for one in find_ends(partitions, {7: since_ms}, GUEST)]


def test_a_segment_is_read_only_where_its_own_files_do_not_prove_that_it_holds_nothing(
    tmp_path: Path,
) -> None:
    assert ends_in_three_segments(tmp_path, remembered=[7]) == [3]
    assert ends_in_three_segments(tmp_path, remembered=[8]) == []
    # A snapshot forgets producers in time, and a segment that was not written to since holds nothing new.
    assert ends_in_three_segments(tmp_path, remembered=[8], took_s=REMEMBERED_MS // 1000) == [3]
    assert ends_in_three_segments(tmp_path, remembered=[7], since_ms=TIME + 1) == []
    assert ends_in_three_segments(tmp_path, remembered=[7], took_s=-60) == []
