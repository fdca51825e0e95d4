"""Every command that meets an open transaction says the same of it, and advises the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkatool.format.state.checkpoint import EpochStart, write_leader_epochs
from tests.cli import rows_of, run
from tests.engine.transaction_logs import LogMaker, write_logs
from tests.engine.transaction_states import state, write_all_states
from tests.logs import TIME

ABORT = "abort --topic orders --partition 0 --start-offset 1"
LIVE: dict[str, Any] = {
    "transactionPartitions": [{"topic": "orders", "partitionIds": [0]}],
    "transactionTimeoutMs": 2**31 - 1,
}


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    write_logs(tmp_path, {0: bytes(LogMaker().plain().txn(7).plain().data)})
    return tmp_path


def finding(*arguments: str) -> dict[str, Any]:
    found = run(*arguments).rows
    (one,) = [row for row in found if row.get("class") == "open_transaction"]
    return one


def test_a_hanging_transaction_is_degraded_and_ended_by_the_same_command_everywhere(log_dir: Path) -> None:
    write_all_states(log_dir)
    compact = rows_of("compact", "--set", "cleanup.policy=compact", log_dir / "orders-0")
    (txn,) = compact[-1]["open_transactions"]
    served = rows_of("serve", "--list", log_dir)[0]
    assert served["held_by"] == txn
    assert served["note"].endswith(txn["fix"])
    assert (txn["verdict"], txn["fix"].endswith(ABORT)) == ("hanging", True)
    for command in (("doctor", "--elsewhere"), ("report",)):
        one = finding(*command, "--format", "ndjson", str(log_dir))
        assert (one["severity"], one["first_offset"], one["fix"]) == ("degraded", 1, txn["fix"])
        assert f"hanging: {txn['why']}" in one["message"]


def test_a_live_transaction_is_a_note_and_nothing_is_to_be_done(log_dir: Path) -> None:
    write_all_states(log_dir, state("pay", 7, **LIVE))
    served = rows_of("serve", "--list", log_dir)[0]
    assert (served["held_by"]["verdict"], served["held_by"]["fix"]) == ("in_progress", None)
    for command in (("doctor", "--elsewhere"), ("report",)):
        one = finding(*command, "--format", "ndjson", str(log_dir))
        assert (one["severity"], one["fix"]) == ("note", None)


def test_the_page_of_a_report_says_whom_it_holds_back(log_dir: Path) -> None:
    write_all_states(log_dir)
    for log in log_dir.glob("*/*.log"):
        for extension in (".index", ".timeindex"):
            log.with_suffix(extension).touch()
        (log.parent / "leader-epoch-checkpoint").write_bytes(write_leader_epochs([EpochStart(0, 0)]))
    page = run("report", "-q", "-o", "-", str(log_dir)).stdout.decode()
    assert "readers of committed records do not get on in orders-0: the transaction of producer 7" in page
    assert ABORT in page


def test_a_report_judges_by_the_moment_that_was_given(log_dir: Path) -> None:
    write_all_states(log_dir)
    for at_ms, verdict in ((TIME + 60_000, "ask_coordinator"), (TIME + 3_600_000, "hanging")):
        one = finding("report", "--format", "ndjson", "--at", str(at_ms), str(log_dir))
        assert f": {verdict}: " in one["message"]


def test_a_doctor_is_shown_the_end_of_a_transaction_by_another_brokers_directory(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    write_logs(first, {0: bytes(LogMaker().txn(7).data)})
    write_logs(second, {0: bytes(LogMaker().txn(7).commit(7).data)})
    write_all_states(first)
    done = finding("doctor", "--elsewhere", "--format", "ndjson", str(first), str(second))
    assert ": marker_lost: " in done["message"]
    assert done["fix"] is None


def test_nothing_holds_a_log_without_an_open_transaction(log_dir: Path) -> None:
    write_logs(log_dir, {0: bytes(LogMaker().plain().txn(7).commit(7).data)})
    assert rows_of("serve", "--list", log_dir)[0]["held_by"] is None
    found = rows_of("doctor", "--elsewhere", log_dir)
    assert "open_transaction" not in {row.get("class") for row in found}
