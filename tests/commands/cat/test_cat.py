"""`kafkatool cat`: what it prints, hides and says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from kafkatool.format.batch import Codec, NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.legacy import write_message
from tests.cli import KAFKATOOL, parse_rows, rows_of, run
from tests.engine.compaction_logs import CleanLog
from tests.engine.decoders import UPPER, command
from tests.engine.transaction_logs import LogMaker, set_limits, write_logs
from tests.failing_disk import failing_disk
from tests.fixtures_of_logs import LOG_DIRECTORIES
from tests.logs import LOG, batches


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Offsets 0 to 9: aborted 1, open 7; 0 is below the log start, 9 above the high watermark."""
    log = LogMaker().plain().txn(1).plain(2).abort(1).txn(1).commit(1).txn(2).plain().plain()
    return write_logs(tmp_path, {0: bytes(log.data)}, high_watermark=9, log_start=1)


@pytest.mark.parametrize("begin", [0, 3])
def test_a_marker_in_a_compacted_log_has_one_fate_wherever_reading_begins(tmp_path: Path, begin: int) -> None:
    """Its transaction began in a segment before it, of which nothing is left but a snapshot that knows it."""
    log = CleanLog(tmp_path / "t-0", {"internal.segment.bytes": "200"})
    log.put("a=1", "b=1", pid=1, txn=True).roll().put("a=0").abort(1).put("b=2", pid=1, txn=True).commit(1)
    log.roll().clean(0)
    assert log.shown() == ["2:a=0", "3:ABORT", "4:b=2", "5:COMMIT"]
    wanted = {2: "none", 3: "aborted", 4: "committed", 5: "committed"}
    part = tmp_path / "rows.ndjson"
    done = [
        run(*command, "--all", "--format", "ndjson", "--from", str(begin), str(log.directory))
        for command in (("cat",), ("export", "--output", str(part)))
    ]
    assert [one.exit_code for one in done] == [0, 0], done
    for rows in (done[0].stdout, part.read_bytes()):
        found = {row["offset"]: row["txn"] for row in parse_rows(rows)}
        assert found == {offset: fate for offset, fate in wanted.items() if offset >= begin}


def printed(*arguments: object) -> list[str]:
    done = run("cat", *map(str, arguments))
    assert done.exit_code in (0, 4), done.stderr
    return done.stdout.decode().splitlines()


def test_by_default_it_prints_what_a_consumer_of_committed_records_gets(partition: Path) -> None:
    done = run("cat", str(partition))
    assert (done.exit_code, done.stdout) == (0, b"v2\nv3\nv5\n")
    assert done.stderr == (
        b"kafkatool: hidden, as for a read_committed consumer: 1 below_log_start, "
        b"1 above_high_watermark, 2 control, 1 aborted, 2 open; --all shows them\n"
    )


def test_all_prints_the_whole_log_with_what_is_known_of_it(partition: Path) -> None:
    done = run("cat", "--all", "--format", "ndjson", str(partition))
    rows = done.rows
    assert done.stderr == b""
    assert [row["offset"] for row in rows] == list(range(10))
    assert [row["txn"] for row in rows] == [
        *("none", "aborted", "none", "none", "aborted", "committed", "committed", "open", "none", "none")
    ]
    assert [row["offset"] for row in rows if row["below_log_start"]] == [0]
    assert [row["offset"] for row in rows if row["above_high_watermark"]] == [9]
    assert [row["offset"] for row in rows if row["is_control"]] == [4, 6]


def test_rows_are_those_of_dump_log_with_more_keys(partition: Path) -> None:
    shown = rows_of("cat", "--all", partition, codes=[0, 4])
    for ours, theirs in zip(shown, rows_of("dump-log", "--print-data-log", partition), strict=True):
        theirs.pop("decoded", None)
        assert theirs.items() <= ours.items()


def test_the_high_watermark_can_be_chosen(partition: Path) -> None:
    # With the marker at 4 not yet replicated, the transaction that began at 1 counts as open.
    assert printed("--high-watermark", "4", partition) == []
    assert printed("--high-watermark", "5", partition) == ["v2", "v3"]
    assert "above_high_watermark" not in run("cat", "--high-watermark", "end", str(partition)).stderr.decode()
    assert run("cat", "--high-watermark", "top", str(partition)).exit_code == 2


def test_without_a_checkpoint_it_is_said_that_the_end_counts(tmp_path: Path) -> None:
    partition = write_logs(tmp_path, {0: bytes(LogMaker().plain().data)})
    assert b"orders-0: no high watermark on this disk: read to the end" in run("cat", str(partition)).stderr
    assert run("cat", "-q", str(partition)).stderr == b""


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("%o\\n", "2\n3\n5\n"),
        ("%t/%p/%o/%T/%k/%s/%K/%S\\n", None),
        ("%R", "\0\0\0\2" * 3),
        ("%%\\t\\\\\\x41;", "%\t\\A;" * 3),
        ("ö%s ", "öv2 öv3 öv5 "),
    ],
)
def test_templates_are_those_of_kcat(partition: Path, template: str, text: str | None) -> None:
    wanted = text or "".join(f"orders/0/{o}/{1_700_000_000_000 + o}/k{o}/v{o}/2/2\n" for o in (2, 3, 5))
    assert run("cat", "-f", template, str(partition)).stdout.decode() == wanted


@pytest.mark.parametrize("template", ["%x", "%", "\\q", "%o %"])
def test_what_a_template_does_not_know_is_a_usage_error(partition: Path, template: str) -> None:
    done = run("cat", "-f", template, str(partition))
    assert (done.exit_code, done.stdout) == (2, b"")


def test_a_template_and_a_format_exclude_each_other(partition: Path) -> None:
    assert run("cat", "-f", "%o", "--format", "ndjson", str(partition)).exit_code == 2


def test_null_is_empty_unless_it_is_to_be_seen(tmp_path: Path) -> None:
    records = [NewRecord(None, None, 1, [(b"a", b"1"), (b"b", None)]), NewRecord(b"", b"", 2)]
    partition = write_logs(tmp_path, {0: write_batch(records)})
    assert run("cat", str(partition)).stdout == b"\n\n"
    assert run("cat", "-Z", str(partition)).stdout == b"NULL\n\n"
    shown = run("cat", "-Z", "-f", "%k|%s|%K|%S|%h\\n", str(partition)).stdout
    assert shown == b"NULL|NULL|-1|-1|a=1,b=NULL\n||0|0|\n"


def test_payloads_are_written_as_hex_or_base64_if_asked(partition: Path) -> None:
    assert printed("--bytes", "hex", partition) == ["7632", "7633", "7635"]
    assert printed("--bytes", "base64", "-f", "%k %s\\n", "--limit", 1, partition) == ["azI= djI="]


def test_payloads_are_bytes_and_stay_as_they_are(tmp_path: Path) -> None:
    values = [b"\x00\xff", b"", b"two\nlines", b"x" * 3_000_000]
    partition = write_logs(tmp_path, {0: write_batch([NewRecord(None, one, 1) for one in values])})
    assert run("cat", str(partition)).stdout == b"".join(one + b"\n" for one in values)


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_read(tmp_path: Path, codec: Codec) -> None:
    data = b"".join(batches(40, per_batch=50, codec=codec))
    partition = write_logs(tmp_path, {0: data})
    assert printed(partition) == [f"value {offset}" for offset in range(2000)]


def test_old_formats_are_read(tmp_path: Path) -> None:
    data = write_message(0, b"a", b"one", magic=0) + write_message(1, None, b"two", timestamp_ms=5)
    partition = write_logs(tmp_path, {0: data})
    assert printed("-f", "%o %T %k %s %S\\n", partition) == ["0 -1 a one 3", "1 5  two 3"]
    row = json.loads(printed("--format", "ndjson", partition)[0])
    assert (row["timestamp_type"], row["sequence"], row["producer_id"]) == ("NoTimestampType", None, None)


# --- ranges and filters -------------------------------------------------------------------------------


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Three segments of ten batches of three records; keys k0 to k4, a second apart."""
    made = batches(30)
    logs = {at * 3: b"".join(made[at : at + 10]) for at in (0, 10, 20)}
    return write_logs(tmp_path, logs)


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        (["--from", "85"], range(85, 90)),
        (["--to", "4"], range(4)),
        (["--from", "28", "--to", "33"], range(28, 33)),
        (["--from", "@1700000088000"], [88, 89]),
        (["--from", "2023-11-14T22:13:25Z", "--to", "@1700000007000"], [5, 6]),
        (["--limit", "3"], range(3)),
        (["--tail", "4"], range(86, 90)),
        (["--tail", "35", "--limit", "2"], [55, 56]),
        (["--tail", "1000"], range(90)),
        (["--key", "k3", "--limit", "2"], [3, 8]),
        (["--key", "k3", "--tail", "2"], [83, 88]),
        (["--key-regex", "[12]$", "--to", "8"], [1, 2, 6, 7]),
        (["--key", "hex:6b30", "--key", "base64:azE=", "--to", "6"], [0, 1, 5]),
    ],
)
def test_ranges_and_filters_choose(plain: Path, options: list[str], offsets: Iterator[int]) -> None:
    assert printed(*options, "-f", "%o\\n", plain) == [str(offset) for offset in offsets]


def test_headers_producers_and_control_choose(tmp_path: Path) -> None:
    log = LogMaker().txn(7).commit(7).txn(8).commit(8)
    log.data += write_batch([NewRecord(b"k", b"h", 1, [(b"a", b"b")])], base_offset=4)
    partition = write_logs(tmp_path, {0: bytes(log.data)})
    assert printed("--producer-id", "8", partition) == ["v2"]
    assert printed("--header", "a", partition) == printed("--header", "a=b", partition) == ["h"]
    assert printed("--control", "only", "-f", "%o\\n", partition) == ["1", "3"]
    assert printed("--all", "--control", "none", "-f", "%o\\n", partition) == ["0", "2", "4"]


def test_nothing_that_matches_is_2(plain: Path) -> None:
    done = run("cat", "--key", "nobody", str(plain))
    assert (done.exit_code, done.stdout) == (2, b"")
    assert b"nothing matches" in done.stderr


def test_one_segment_knows_of_the_markers_behind_it(tmp_path: Path) -> None:
    first, second = LogMaker().txn(1).plain(), LogMaker(offset=2).abort(1)
    partition = write_logs(tmp_path, {0: bytes(first.data), 2: bytes(second.data)})
    assert printed(partition / f"{0:020d}.log") == ["v1"]


def test_a_whole_log_directory_is_read_partition_by_partition(tmp_path: Path) -> None:
    for number in (1, 0):
        write_logs(tmp_path, {0: bytes(LogMaker().plain().data)}, name=f"t-{number}")
    set_limits(tmp_path, 1, name="t-0")
    assert printed("-f", "%t %p %o\\n", tmp_path) == ["t 0 0", "t 1 0"]


# --- damage -------------------------------------------------------------------------------------------


def test_damage_is_said_and_the_walk_goes_on(tmp_path: Path) -> None:
    log = LogMaker().plain().plain().plain()
    log.data[log.positions[1] + 65] ^= 1
    partition = write_logs(tmp_path, {0: bytes(log.data)})
    done = run("cat", str(partition))
    assert (done.exit_code, done.stdout) == (4, b"v0\nv2\n")
    assert b"bad_crc" in done.stderr
    assert run("cat", "--fail-on", "loss", str(partition)).exit_code == 4


def test_what_is_lost_with_a_marker_is_told(tmp_path: Path) -> None:
    log = LogMaker().txn(1).commit(1).plain()
    log.data[log.positions[1] + 65] ^= 1
    done = run("cat", str(write_logs(tmp_path, {0: bytes(log.data)})))
    assert (done.exit_code, done.stdout) == (4, b"v2\n")
    assert b"hidden: 1 unknown, because the damage may contain the end of their transactions" in done.stderr


def test_a_batch_whose_records_are_garbage_is_left_out(tmp_path: Path) -> None:
    from kafkatool.format.batch import read_header, seal

    log = LogMaker().plain()
    bad = seal(read_header(batches(2)[1])._replace(base_offset=1, records_count=3), b"\xff" * 40)
    log.data += bad + write_batch([NewRecord(None, b"last", 1)], base_offset=5)
    done = run("cat", str(write_logs(tmp_path, {0: bytes(log.data)})))
    assert (done.exit_code, done.stdout) == (4, b"v0\nlast\n")
    assert b"bad_record" in done.stderr


@pytest.mark.parametrize("cut", range(0, 400, 7))
def test_a_log_that_is_cut_anywhere_prints_a_prefix(tmp_path: Path, cut: int) -> None:
    data = b"".join(batches(5))
    partition = write_logs(tmp_path, {0: data[:cut]})
    shown = printed(partition)
    assert shown == [f"value {offset}" for offset in range(15)][: len(shown)]


@pytest.mark.parametrize("directory", LOG_DIRECTORIES, ids=lambda path: "/".join(path.parts[-3:]))
def test_every_log_of_a_broker_gives_the_records_that_dump_log_shows(directory: Path) -> None:
    shown = run("cat", "--all", "--format", "ndjson", "--bytes", "hex", str(directory))
    live = [str(path) for path in sorted(directory.glob("*.log"))]
    dumped = run("dump-log", "--format", "ndjson", "--print-data-log", "--bytes", "hex", *live)
    theirs = dumped.rows
    ours = shown.rows
    assert shown.exit_code == dumped.exit_code
    rows = [row for row in theirs if row["kind"] == "record"]
    assert len(rows) == len(ours)
    for row, mine in zip(rows, ours, strict=True):
        row.pop("decoded", None)
        assert row.items() <= mine.items()


def test_standard_input_is_a_log_and_nothing_is_left_of_it(partition: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch)}
    for options, wanted in (
        ([], b"v0\nv2\nv3\nv5\n"),
        (["-f", "%t,%p,%o\\n", "--tail", "1"], b",-1,5\n"),
        (["--follow"], b""),
    ):
        done = subprocess.run(
            [*KAFKATOOL, "cat", *options, "-"],
            input=(partition / LOG).read_bytes() + b"torn",
            capture_output=True,
            check=False,
            env=environment,
        )
        assert done.stdout == wanted
        assert done.returncode == (2 if options == ["--follow"] else 4), done.stderr
        assert list(scratch.iterdir()) == []
    done = subprocess.run(
        [*KAFKATOOL, "cat", "-"], input=b"\0" * 99, capture_output=True, check=False, env=environment
    )
    assert b"kafkatool: -: byte 0: zero_filled" in done.stderr


# --- decoder ------------------------------------------------------------------------------------------


def test_a_decoder_decodes(partition: Path) -> None:
    assert printed("--decoder", command(UPPER), partition) == ["V2", "V3", "V5"]
    assert printed("--decoder", command(UPPER), "-f", "%k=%s\\n", partition) == ["k2=V2", "k3=V3", "k5=V5"]
    row = json.loads(printed("--decoder", command(UPPER), "--format", "ndjson", partition)[0])
    assert (row["key"], row["value"]) == ("k2", "V2")


def test_a_decoder_that_dies_is_one_line_and_3(partition: Path) -> None:
    done = subprocess.run(
        [*KAFKATOOL, "cat", "-q", "--decoder", "sh -c 'echo why >&2; exit 9'", str(partition)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.splitlines()[0] == "why"
    assert "ended, exit code 9" in done.stderr.splitlines()[1]


def test_a_decoder_that_does_not_exist_is_a_usage_error(partition: Path) -> None:
    assert run("cat", "--decoder", "/no/such/thing", str(partition)).exit_code == 2


# --- following ----------------------------------------------------------------------------------------


class Follower:
    """A `cat --follow` beside the test."""

    def __init__(self, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [*KAFKATOOL, "cat", "--follow", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self.seen = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.process.kill()  # it would go on for ever where a test fails
        self.process.communicate()

    def until(self, wanted: bytes, seconds: float = 90) -> None:
        def arrived() -> bool:
            assert self.process.stdout is not None
            self.seen += self.process.stdout.read() or b""
            return self.seen.endswith(wanted)

        wait_for(arrived, seconds)

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        _out, err = self.process.communicate(timeout=60)
        assert b"Traceback" not in err
        return self.process.returncode


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def test_following_prints_what_comes_waits_for_markers_and_ends_with_130(tmp_path: Path) -> None:
    log = LogMaker().plain().txn(1)
    partition = write_logs(tmp_path, {0: bytes(log.data)})
    with Follower(partition) as follower:
        follower.until(b"v0\n")
        log.plain().commit(1)
        write_logs(tmp_path, {0: bytes(log.data)})
        follower.until(b"v0\nv1\nv2\n")
        write_logs(tmp_path, {4: bytes(LogMaker(offset=4).plain(2).data)})
        follower.until(b"v0\nv1\nv2\nv4\nv5\n")
        assert follower.interrupt() == 130


def test_following_goes_on_when_old_segments_are_deleted(tmp_path: Path) -> None:
    partition = write_logs(tmp_path, {0: bytes(LogMaker().plain(2).data)})
    with Follower("--tail", "1", partition) as follower:
        follower.until(b"v1\n")
        write_logs(tmp_path, {2: bytes(LogMaker(offset=2).plain().data)})
        (partition / f"{0:020d}.log").unlink()
        follower.until(b"v1\nv2\n")
        assert follower.seen == b"v1\nv2\n"
        assert follower.interrupt() == 130


def test_a_limit_ends_following(tmp_path: Path) -> None:
    log = LogMaker().plain().plain()
    partition = write_logs(tmp_path, {0: bytes(log.data)})
    with Follower("--limit", "3", "--tail", "1", partition) as follower:
        follower.until(b"v1\n")
        log.plain(5)
        write_logs(tmp_path, {0: bytes(log.data)})
        follower.until(b"v1\nv2\nv3\n")
        assert follower.process.wait(60) == 0


# --- a disk that fails --------------------------------------------------------------------------------


def test_blocks_that_the_disk_does_not_give_cost_only_what_stands_on_them(tmp_path: Path) -> None:
    data = b"".join(batches(2000))
    with failing_disk(tmp_path, {LOG: data}, {LOG: [(40960, 45056)]}) as mount:
        done = run("cat", "-q", str(mount))
        limited = run("cat", "--max-errors", "0", str(mount))
    shown = done.stdout.decode().splitlines()
    everything = [f"value {offset}" for offset in range(6000)]
    assert done.exit_code == 4
    assert 5800 < len(shown) < 6000
    assert set(shown) < set(everything)
    assert b"unreadable" in done.stderr
    assert b"image it before doing anything else" in done.stderr
    assert limited.exit_code == 3
