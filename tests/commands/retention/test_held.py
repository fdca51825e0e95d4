"""`retention --free` and expired data that only a time in the future holds back."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from kafkatool.format.names import segment_file
from tests.cli import run
from tests.engine.held_logs import AHEAD, HELD, LIMITS, OLD, YOUNG, Times, write_log
from tests.mutations import flip


def free(path: Path, size: str = "1", *options: str, code: int = 0) -> list[dict[str, Any]]:
    done = run("retention", "--format", "ndjson", "--free", size, *LIMITS, *options, str(path))
    assert done.exit_code == code, done.stderr
    return done.of("held", "change")


def test_what_a_time_in_the_future_holds_back_ranks_first_with_its_record(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "orders-0"
    write_log(path, HELD)
    row, *changes = free(path)
    assert (row["kind"], row["rank"], row["topic"], row["partition"]) == ("held", 1, "orders", 0)
    # The record itself: the batch of 7 and 8 ends with 8, and that of 3 to 5 with 5.
    assert (row["record_offset"], row["record_timestamp_ms"], row["future_records"]) == (7, AHEAD + 1, 2)
    # Up to the end of the last segment that is held; the one after it has expired, and goes by itself.
    assert (row["first_offset"], row["last_offset"]) == (0, 8)
    assert row["segments"] == 4, "of five that have expired, the first goes anyway"
    assert row["freed"] > 4 * 400
    *words, plan = shlex.split(row["delete_command"])
    assert words == shlex.split(
        "kafka-delete-records.sh --bootstrap-server <HOST:PORT> --offset-json-file /dev/stdin <<<"
    )
    place = {"topic": "orders", "partition": 0, "offset": 9}
    assert json.loads(plan) == {"partitions": [place], "version": 1}
    for words_ in (
        "offsets 0 to 8 of orders-0 on every replica, for good",
        "offset 7 of 2023-11-15",
        "and 1 more",
    ):
        assert words_ in row["message"]
    assert {(one["kind"], one["setting"], one["rank"] > 1) for one in changes} == {
        ("change", "retention.bytes", True)
    }


def test_the_verdict_names_the_record_too(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "orders-0"
    write_log(path, HELD)
    done = run("retention", *LIMITS, "--format", "ndjson", str(path))
    rows = {row["segment"]: row for row in done.of("verdict")}
    assert rows[2]["largest_timestamp_offset"] == 4
    assert "its time at offset 4 is 1d in the future" in rows[2]["message"]
    assert "offset 4 has a time in the future" in rows[6]["message"]


def test_the_table_says_what_is_deleted_before_the_command(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "orders-0"
    write_log(path, HELD)
    text = run("retention", "--free", "1", *LIMITS, str(path)).stdout.decode()
    header, row = text.splitlines()[:2]
    titles = " ".join(header.split())
    assert titles == "RANK PARTITION FUTURE OFFSET ITS TIME DELETE FROM TO FREES SEGMENTS WITHIN"
    assert row.split()[:3] == ["1", "orders-0", "7"]
    said = text.index("\n# rank 1: deletes offsets 0 to 8 of orders-0")
    assert said < text.index("\nkafka-delete-records.sh ") < text.index("\n# rank 2\nkafka-configs.sh ")
    told = run("retention", "--free", "1", "--format", "csv", *LIMITS, str(path))
    assert told.stdout.startswith(b"rank,topic,setting,")
    assert b"kafka-delete-records.sh" in told.stderr


NOT_HELD: dict[str, Times] = {
    "a record that has not expired is among them": [[[OLD], [OLD, AHEAD], [YOUNG]], [[OLD]], [[YOUNG]]],
    "one of its own batch has not": [[[YOUNG, AHEAD, OLD]], [[OLD]], [[YOUNG]]],
    "all of it is in the future": [[[AHEAD, AHEAD]], [[OLD]], [[YOUNG]]],
    "it is in the segment that is written to": [[[OLD]], [[OLD, AHEAD]]],
    "an older one has not expired": [[[YOUNG]], [[OLD, AHEAD]], [[OLD]], [[YOUNG]]],
    "nothing is": [[[OLD]], [[OLD]], [[YOUNG]]],
}


@pytest.mark.parametrize("log", NOT_HELD.values(), ids=NOT_HELD.keys())
def test_nothing_is_called_held_back_where(log: Times, tmp_path: Path) -> None:
    write_log(tmp_path / "logs" / "orders-0", log)
    done = run("retention", "--format", "ndjson", "--free", "1", *LIMITS, str(tmp_path / "logs" / "orders-0"))
    assert b'"held"' not in done.stdout


def test_nothing_is_offered_that_a_broker_refuses_or_nobody_can_describe(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "orders-0"
    write_log(path, HELD)
    internal = tmp_path / "logs" / "__share_group_state-0"
    write_log(internal, HELD)

    def is_offered(where: Path, *options: str) -> bool:
        done = run("retention", "--format", "ndjson", "--free", "1", *LIMITS, *options, str(where))
        return b'"held"' in done.stdout

    assert is_offered(path)
    assert not is_offered(internal, "--set", "cleanup.policy=delete")
    assert not is_offered(path, "--set", "cleanup.policy=compact")
    assert is_offered(path, "--set", "cleanup.policy=compact,delete")
    assert not is_offered(path, "--set", "remote.storage.enable=true", "--remote-offset", "20")
    assert not is_offered(path, "--set", "retention.ms=-1")
    assert not is_offered(path, "--high-watermark", "5"), "deleting above the high watermark is refused"
    (row,) = (one for one in free(path, "1", "--high-watermark", "8") if one["kind"] == "held")
    assert (row["last_offset"], row["segments"]) == (5, 2), (
        "the second one in the future is not replicated yet"
    )
    flip(path / segment_file(2, ".log"), 200, 4)
    assert not is_offered(path), "a damaged one: nobody could say what is deleted"


def test_where_it_is_not_enough_a_change_of_a_setting_goes_with_it(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    for name in ("orders-0", "orders-1"):
        write_log(logs / name, HELD)
    write_log(logs / "large-0", [[[YOUNG] * 40], [[YOUNG]]])
    both = sum(row["freed"] for row in free(logs, "1G", code=3) if row["kind"] == "held")
    one = free(logs, str(both // 2))
    assert [(row["rank"], row["kind"]) for row in one if row["rank"] == 1] == [(1, "held")]
    assert [row["partition"] for row in free(logs, str(both)) if row["rank"] == 1] == [0, 1]
    more = [row for row in free(logs, str(both + 5000)) if row["rank"] == 1]
    assert [row["kind"] for row in more] == ["held", "held", "change"]
    assert more[-1]["topic"] == "large"
    assert sum(row["freed"] for row in more) >= both + 5000
