"""What dump-log adds to Kafka's text: rows, ranges, filters, tails, and the exit code."""

from __future__ import annotations

import csv
import io
import os
import shlex
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import snappy

from kafkatool.commands.rows.batches import BATCH, DAMAGE
from kafkatool.format.batch import HEADER_SIZE, Codec, NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.checksum import crc32c
from kafkatool.format.compression import compress
from tests.cli import parse_rows, rows_of, run
from tests.log_dirs import locked
from tests.logs import LOG, TIME, batches, write_log
from tests.places import FIXTURES


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """120 records in two segments of 20 batches."""
    parts = batches(40)
    directory = tmp_path / "orders-3"
    write_log(directory, b"".join(parts[:20]))
    write_log(directory, b"".join(parts[20:]), "00000000000000000060.log")
    return directory


rows = partial(rows_of, "dump-log")


def offsets(*arguments: object) -> list[int]:
    return [row["offset"] for row in rows(*arguments) if row["kind"] == "record"]


def test_a_batch_row_has_every_promised_key_in_order(partition: Path) -> None:
    first, *_ = rows(partition)
    assert list(first) == ["kind", *BATCH.keys]
    assert (first["topic"], first["partition"], first["segment"]) == ("orders", 3, 0)
    assert (first["base_offset"], first["last_offset"], first["is_valid"]) == (0, 2, True)


def test_payloads_are_shown_only_when_asked_for(partition: Path) -> None:
    (closed,) = rows("--deep-iteration", "--limit", 1, partition)
    (opened,) = rows("--print-data-log", "--limit", 1, partition)
    assert not {"key", "value", "headers"} & set(closed)
    assert (closed["key_size"], closed["value_size"], closed["header_keys"]) == (2, 7, [])
    assert (opened["key"], opened["value"], opened["headers"]) == ("k0", "value 0", [])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--from", 57, "--to", 63], range(57, 63)),
        (["--from", f"@{TIME + 118_000}"], range(118, 120)),
        (["--to", "2023-11-14T22:13:22Z"], range(2)),
        (["--from", 100, "--to", 100], []),
        (["--key", "k3", "--to", 20], [3, 8, 13, 18]),
        (["--key", "hex:6b33", "--key", "base64:azQ=", "--to", 10], [3, 4, 8, 9]),
        (["--key-regex", "[12]$", "--to", 10], [1, 2, 6, 7]),
        (["--producer-id", 7], []),
        (["--control", "only"], []),
        (["--control", "none", "--to", 2], [0, 1]),
        (["--tail", 4], range(116, 120)),
        (["--tail", 4, "--key", "k0"], [100, 105, 110, 115]),
        (["--tail", 61], range(59, 120)),
        (["--tail", 3, "--to", 30], [27, 28, 29]),
        (["--limit", 4, "--from", 58], [58, 59, 60, 61]),
        (["--tail", 500, "--limit", 2], [0, 1]),
    ],
)
def test_ranges_and_filters_choose_records(partition: Path, arguments: list[object], expected: Any) -> None:
    assert offsets("--deep-iteration", *arguments, partition) == list(expected)
    kafka = run("dump-log", "--deep-iteration", *map(str, arguments), str(partition))
    lines = [line for line in kafka.stdout.decode().split("\n") if line.startswith("| offset: ")]
    assert [int(line.split()[2]) for line in lines] == list(expected)


def test_a_selection_that_matches_nothing_is_a_usage_error(partition: Path) -> None:
    for fmt in ("kafka", "table", "ndjson", "csv"):
        result = run("dump-log", "--format", fmt, "--key", "nobody", str(partition))
        assert result.exit_code == 2, fmt
        assert b"nothing matches" in result.stderr


def test_headers_filter_by_name_and_value(tmp_path: Path) -> None:
    records = [
        NewRecord(b"a", b"1", TIME, [(b"trace", b"x"), (b"trace", b"y")]),
        NewRecord(b"b", b"2", TIME, [(b"trace", None)]),
        NewRecord(b"c", b"3", TIME),
    ]
    path = write_log(tmp_path / "t-0", write_batch(records))
    assert offsets("--header", "trace", path) == [0, 1]
    assert offsets("--header", "trace=y", path) == [0]
    assert offsets("--header", "trace=x", "--header", "trace=y", path) == [0]


def test_batches_in_range_are_listed_whole(partition: Path) -> None:
    found = rows("--from", 58, "--to", 61, partition)
    assert [(row["base_offset"], row["last_offset"]) for row in found] == [(57, 59), (60, 62)]


def test_csv_holds_one_kind_of_row(partition: Path) -> None:
    result = run("dump-log", "--format", "csv", "--limit", "2", str(partition))
    table = list(csv.DictReader(io.StringIO(result.stdout.decode())))
    assert [row["base_offset"] for row in table] == ["0", "3"]
    (partition / "leader-epoch-checkpoint").write_bytes(b"0\n1\n0 0\n")
    mixed = run(
        *("dump-log", "--format", "csv", str(partition / LOG)),
        str(partition / "leader-epoch-checkpoint"),
    )
    assert mixed.exit_code == 2


def test_bytes_that_are_no_text_say_so(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0", write_batch([NewRecord(b"\xff\0", "é".encode(), TIME)]))
    options = ("--print-data-log", path)
    assert rows(*options)[0]["key"] == {"base64": "/wA="}
    assert rows(*options)[0]["value"] == "é"
    assert rows("--bytes", "hex", *options)[0]["key"] == "ff00"
    assert rows("--bytes", "base64", *options)[0]["value"] == "w6k="


def damaged(tmp_path: Path) -> Path:
    parts = batches(6)
    parts[2] = parts[2][:80] + b"!" + parts[2][81:]
    return write_log(tmp_path / "t-0", b"".join(parts) + parts[0][:30])


def test_damage_is_a_row_in_its_place_and_the_walk_goes_on(tmp_path: Path) -> None:
    path = damaged(tmp_path)
    found = rows(path)
    assert [row["kind"] for row in found] == [*["batch"] * 3, "damage", *["batch"] * 3, "damage"]
    assert list(found[3]) == ["kind", *DAMAGE.keys]
    assert (found[3]["class"], found[3]["first_offset"], found[3]["next_good_offset"]) == ("bad_crc", 6, 9)
    assert found[-1]["class"] == "torn_tail"


@pytest.mark.parametrize("fmt", ["kafka", "table", "ndjson", "csv"])
def test_damage_decides_about_the_exit_code_in_every_format(tmp_path: Path, fmt: str) -> None:
    path = str(damaged(tmp_path))
    assert run("dump-log", "--format", fmt, path).exit_code == 4
    assert run("dump-log", "--format", fmt, "--fail-on", "loss", path).exit_code == 4
    torn = write_log(tmp_path / "u-0", batches(1)[0] + bytes(4000))
    assert run("dump-log", "--format", fmt, str(torn)).exit_code == 4
    assert run("dump-log", "--format", fmt, "--fail-on", "loss", str(torn)).exit_code == 0


def test_the_next_command_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    path = damaged(tmp_path / "two words")
    assert [shlex.split(row["fix"]) for row in rows(path) if row["kind"] == "damage"] == [
        ["kafkatool", "dump-log", "--from", "9", str(path.parent)],
        ["kafkatool", "verify", "-v", str(path.parent)],
    ]


def test_what_is_none_of_kafkas_files_is_a_usage_error_beside_others_too(
    partition: Path, tmp_path: Path
) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("nothing of Kafka's")
    assert run("dump-log", "--format", "ndjson", str(other)).exit_code == 2
    result = run("dump-log", "--format", "ndjson", str(other), str(partition / LOG))
    assert (result.exit_code, result.stdout) == (2, b"")
    assert b"notes.txt: neither its name nor its bytes" in result.stderr


@pytest.mark.parametrize("name", ["00000000000000000000.index", "00000000000000000000.snapshot"])
def test_a_side_file_that_is_gone_was_not_dumped(partition: Path, name: str) -> None:
    assert run("dump-log", "--fail-on", "loss", "--files", str(partition / name)).exit_code == 3


def test_in_kafkas_text_damage_is_told_on_stderr_only(tmp_path: Path) -> None:
    result = run("dump-log", str(damaged(tmp_path)))
    assert b"bad_crc" in result.stderr
    assert b"offsets 6 to 8 are at stake" in result.stderr
    shapes = ("Dumping ", "Log starting offset: ", "baseOffset: ", "Found ")
    assert all(line.startswith(shapes) for line in result.stdout.decode().splitlines())


def test_a_bomb_is_too_large_and_the_rest_is_shown(tmp_path: Path) -> None:
    bomb = write_batch([NewRecord(None, bytes(32 << 20), TIME)], codec=Codec.ZSTD)
    assert len(bomb) < 4096
    after = write_batch([NewRecord(b"k", b"v", TIME)], base_offset=1)
    path = write_log(tmp_path / "t-0", bomb + after)
    found = rows("--print-data-log", "--max-batch-size", "1M", path)
    assert [row["kind"] for row in found] == ["damage", "record"]
    assert (found[0]["class"], found[0]["severity"]) == ("too_large", "degraded")
    assert found[0]["fix"] == f"kafkatool dump-log --max-batch-size 1G --print-data-log {path}"


def test_a_tail_tells_the_damage_that_made_it_short(tmp_path: Path) -> None:
    large = write_batch([NewRecord(None, bytes(2 << 20), TIME)], codec=Codec.ZSTD)
    path = write_log(tmp_path / "t-0", large + write_batch([NewRecord(b"k", b"v", TIME)], base_offset=1))
    found = rows("--print-data-log", "--max-batch-size", "1M", "--tail", "2", path)
    assert [row["kind"] for row in found] == ["damage", "record"]
    done = run("cat", "--max-batch-size", "1M", "--tail", "2", str(path))
    assert (done.exit_code, done.stdout) == (4, b"v\n")


@pytest.mark.long
@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_batch_that_inflates_to_gigabytes_takes_little_memory(tmp_path: Path, codec: Codec) -> None:
    path = write_log(
        tmp_path / "t-0", bomb(codec) + write_batch([NewRecord(b"k", b"v", TIME)], base_offset=1)
    )
    for command in (["dump-log", "--print-data-log", "--format", "ndjson"], ["cat", "--format", "ndjson"]):
        # Address space: the interpreter, its libraries and some copies of 64 MiB.
        limited = ["prlimit", f"--as={700 << 20}", sys.executable, "-m", "kafkatool"]
        done = subprocess.run([*limited, *command, str(path)], capture_output=True, text=True, check=False)
        assert done.returncode == 4, done.stderr
        assert "too_large" in done.stdout + done.stderr
        assert parse_rows(done.stdout)[-1]["offset"] == 1


def bomb(codec: Codec) -> bytes:
    """A batch with a matching checksum whose records are two gigabytes of zeros."""
    zeros = bytes(64 << 20)
    if codec is Codec.SNAPPY:  # a block tells its size, and may lie
        block = b"\x80\x80\x80\x80\x08" + bytes(snappy.compress(zeros))[4:]
        body = compress(codec, b"") + len(block).to_bytes(4, "big") + block
    elif codec is Codec.LZ4:
        whole = compress(codec, zeros)
        body = whole[:7] + whole[7:-4] * 32 + bytes(4)
    else:  # several members, or frames, are one stream
        body = compress(codec, zeros) * 32
    plain = write_batch([NewRecord(None, b"", TIME)], attributes=codec)
    length = (HEADER_SIZE - 12 + len(body)).to_bytes(4, "big")
    rest = plain[21:HEADER_SIZE] + body
    return plain[:8] + length + plain[12:17] + int(crc32c(rest)).to_bytes(4, "big") + rest


def test_standard_input_is_a_log(partition: Path) -> None:
    data = (partition / LOG).read_bytes()
    command = [sys.executable, "-m", "kafkatool", "dump-log", "--format", "ndjson", "-"]
    result = subprocess.run(command, input=data, capture_output=True, check=True)
    assert len(result.stdout.splitlines()) == 20


def test_a_missing_file_is_a_failure_and_the_others_are_dumped(partition: Path) -> None:
    gone, there = partition / "00000000000000000099.log", partition / LOG
    result = run("dump-log", "--files", f"{gone},{there}")
    assert result.exit_code == 3
    assert result.stdout.startswith(f"Dumping {gone}\nLog starting offset: 99\nDumping {there}\n".encode())
    assert run("dump-log", str(gone)).exit_code == 2


def test_set_aside_logs_are_logs_when_named_as_paths_but_unknown_to_kafka(partition: Path) -> None:
    aside = (partition / LOG).rename(partition / f"{LOG}.deleted")
    assert len(rows(aside)) == 20
    assert b"baseOffset: 57" in run("dump-log", str(aside)).stdout
    kafka = run("dump-log", "--files", str(aside))
    assert kafka.kafka_stderr == [f"Ignoring unknown file {aside}".encode()]
    assert kafka.exit_code == 2, "nothing of it was read"


def test_a_torn_tail_under_a_brokers_lock_is_in_flight_and_no_damage(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0", batches(1)[0] + batches(1)[0][:40])
    (tmp_path / ".lock").touch()
    assert run("dump-log", str(path)).exit_code == 4
    with locked(tmp_path):
        result = run("dump-log", "--format", "ndjson", str(path))
    assert result.exit_code == 0
    (last,) = result.of("damage")
    assert (last["class"], last["severity"]) == ("in_flight", "note")


def state_of(directory: Path) -> dict[str, tuple[int, int, int, bytes]]:
    found = {}
    for path in sorted(directory.rglob("*")):
        info = path.stat()
        data = path.read_bytes() if stat.S_ISREG(info.st_mode) else b""
        found[str(path)] = (info.st_mode, info.st_mtime_ns, info.st_ino, data)
    return found


def test_reading_changes_nothing(tmp_path: Path) -> None:
    case = FIXTURES / "index" / "killed-4.3"
    copy = tmp_path / "copy"
    os.system(f"cp -a '{case}' '{copy}'")  # times too
    before = state_of(copy)
    for path in sorted(copy.rglob("*")):
        if path.is_file():
            run("dump-log", "--files", str(path))
            run("dump-log", "--format", "ndjson", "--print-data-log", str(path))
    run("dump-log", "--tail", "3", str(copy))
    assert state_of(copy) == before


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        *("*.index", "*.timeindex", "*.txnindex", "*.snapshot", "leader-epoch-checkpoint"),
        *("partition.metadata", "meta.properties", "quorum-state", ".kafka_cleanshutdown"),
        *("recovery-point-offset-checkpoint", "replication-offset-checkpoint"),
        *(
            "log-start-offset-checkpoint",
            "cleaner-offset-checkpoint",
            "bootstrap.checkpoint",
            "*-*.checkpoint",
        ),
    ],
)
def test_every_kind_of_file_gives_rows(name: str) -> None:
    files = [path for path in sorted(FIXTURES.rglob(name)) if path.stat().st_size]
    assert files
    results = [run("dump-log", "--format", "ndjson", str(path)) for path in files]
    assert {result.exit_code for result in results} == {0}
    assert any(result.stdout for result in results)


def test_metadata_is_decoded_and_its_secrets_can_be_hidden() -> None:
    (log,) = sorted((FIXTURES / "cluster-metadata" / "4.3").rglob("00000000000000000000.log"))[:1]
    shown = run("dump-log", "--format", "ndjson", "--print-data-log", str(log))
    hidden = run("dump-log", "--format", "ndjson", "--print-data-log", "--redact", str(log))
    text = run("dump-log", "--cluster-metadata-decoder", "--redact", str(log))
    found = shown.rows
    scram = [row for row in found if row["decoded"]["type"] == "UserScramCredentialRecord"]
    assert scram
    secret = scram[0]["decoded"]["value"]["storedKey"].encode()
    assert secret in shown.stdout
    assert secret not in hidden.stdout
    assert secret not in text.stdout
    assert b"--redact" in shown.stderr
    assert b"--redact" not in hidden.stderr


def test_a_read_only_mount_is_enough(tmp_path: Path) -> None:
    source, mount = FIXTURES / "transactions" / "segments-4.3", tmp_path / "mount"
    mount.mkdir()
    try:
        subprocess.run(["mount", "--bind", str(source), str(mount)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting needs root")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(mount)], check=True)
        with pytest.raises(OSError, match="Read-only"):
            (mount / "probe").touch()
        for path in sorted(mount.rglob("*.*index")):
            assert run("dump-log", "--files", str(path)).exit_code == 0
        assert run("dump-log", "--print-data-log", "--format", "ndjson", str(mount)).exit_code == 0
        assert run("ls", "--files", str(mount)).exit_code == 0
    finally:
        subprocess.run(["umount", str(mount)], check=True)
