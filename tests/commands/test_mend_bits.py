"""--mend-bits: recover, cat, export and serve with a flipped bit give what there was before it flipped."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from kafkatool.format.batch import Codec, read_header
from kafkatool.format.legacy import write_message
from tests.cli import run
from tests.engine.disk import write_partition
from tests.engine.transaction_logs import LogMaker, write_logs
from tests.log_dirs import read_tree
from tests.logs import batches
from tests.mutations import flip
from tests.serving import served

TOLD = re.compile(
    rb"kafkatool: (\S+): bit (\d) of byte (\d+) is flipped back: the batch of offsets? (.+?) is whole again; "
    rb"the odds that its checksum matches by chance are 1 in \d+"
)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Two segments; transactions among plain records, of every codec and of an old format."""
    first = LogMaker().plain(3).txn(1, 2).plain(2).abort(1).txn(1, 3).commit(1).plain(4)
    assert first.offset == 16
    old = [write_message(16 + at, b"k", b"old %d" % at, magic=1, timestamp_ms=1) for at in range(3)]
    second = LogMaker(offset=19).plain(2).txn(2, 1).commit(2).plain(5)
    more = b"".join(
        batch[:7] + bytes([40 + number]) + batch[8:]
        for number, codec in enumerate(Codec)
        for batch in batches(1, per_batch=1, codec=codec)
    )
    logs = {0: bytes(first.data) + b"".join(old), 19: bytes(second.data) + more}
    return write_logs(tmp_path / "logs", logs, high_watermark=45).parent


def places(path: Path) -> list[tuple[int, int]]:
    """Position and size of every entry of a log."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        size = int.from_bytes(data[at + 8 : at + 12], "big") + 12
        found.append((at, size))
        at += size
    return found


def damages(log_dir: Path) -> list[tuple[Path, int, int]]:
    """A bit in each entry of both logs, in its body, length, checksum and magic by turns."""
    found = []
    for path in sorted((log_dir / "orders-0").glob("*.log")):
        for number, (at, size) in enumerate(places(path)):
            inside = (size - 2, 11, 18, 16, size - 5)[number % 5]
            # A message of magic 1 has its checksum elsewhere; its byte 18 is under it as well.
            found.append((path, at + inside, number % 7))
    return found


def test_cat_prints_exactly_what_the_undamaged_log_holds(log_dir: Path) -> None:
    for words in (("--all", "--format", "ndjson"), ()):
        wanted = run("cat", *words, str(log_dir))
        for path, byte, bit in damages(log_dir):
            before = path.read_bytes()
            flip(path, byte, bit)
            damaged = path.read_bytes()
            without = run("cat", *words, str(log_dir))
            done = run("cat", "--mend-bits", *words, str(log_dir))
            assert done.stdout == wanted.stdout, (path.name, byte, bit)
            assert (without.stdout, without.exit_code) != (wanted.stdout, 0)
            told = TOLD.findall(done.stderr)
            assert [(one[0], one[1], one[2]) for one in told] == [
                (str(path).encode(), b"%d" % bit, b"%d" % byte)
            ]
            assert done.exit_code == 4
            assert path.read_bytes() == damaged
            path.write_bytes(before)


def test_what_is_mended_is_degraded_not_lost(log_dir: Path) -> None:
    path, byte, bit = damages(log_dir)[0]
    flip(path, byte, bit)
    assert run("cat", "--mend-bits", "--fail-on", "no_start", str(log_dir)).exit_code == 0


def test_cat_finds_ranges_tails_and_keys_in_a_mended_log(log_dir: Path) -> None:
    path, byte, bit = damages(log_dir)[-3]
    ways = (("--from", "22", "--to", "43"), ("--tail", "4"), ("--key", "k22"))
    wanted = [run("cat", *words, str(log_dir)).stdout for words in ways]
    flip(path, byte, bit)
    assert [run("cat", "--mend-bits", *words, str(log_dir)).stdout for words in ways] == wanted


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_export_writes_exactly_what_the_undamaged_log_holds(log_dir: Path, tmp_path: Path, jobs: str) -> None:
    def exported(target: Path, *words: str, code: int) -> tuple[list[bytes], bytes]:
        done = run(
            "export", "--all", "--format", "ndjson", "--jobs", jobs, *words, "-o", str(target), str(log_dir)
        )
        assert done.exit_code == code, done.stderr
        return [path.read_bytes() for path in sorted(target.rglob("*.ndjson"))], done.stderr

    wanted, _ = exported(tmp_path / "whole", code=0)
    for path, byte, bit in (damages(log_dir)[1], damages(log_dir)[-2]):
        flip(path, byte, bit)
    target = tmp_path / "out"
    assert exported(target, code=4)[0] != wanted
    files, said = exported(target, "--mend-bits", code=4)  # what was exported without is not taken for done
    assert files == wanted
    assert len(TOLD.findall(said)) == 2
    files, said = exported(target, "--mend-bits", code=4)
    assert files == wanted
    assert said.count(b"was damaged when it was exported") == 2


@pytest.mark.parametrize("more", [(), ("--no-sendfile",)])
def test_serve_sends_exactly_the_bytes_of_the_undamaged_log(log_dir: Path, more: tuple[str, ...]) -> None:
    whole = {path: path.read_bytes() for path in (log_dir / "orders-0").glob("*.log")}
    chosen = damages(log_dir)[::3]
    for path, byte, bit in chosen:
        flip(path, byte, bit)
    with served("--mend-bits", *more, log_dir) as running, running.client() as client:
        for path, data in whole.items():
            got = b""
            offset = int(path.stem)
            while len(got) < len(data):
                records = client.fetch("orders", offset, max_bytes=200)["records"]
                assert records
                size, offset = _whole(records)
                got += records[:size]
            assert got == data
        told = TOLD.findall(running.stderr().encode())
        assert len(told) == len(chosen)


def _whole(records: bytes) -> tuple[int, int]:
    """Bytes of the batches that are whole, and the offset behind them."""
    at = offset = 0
    while len(records) - at > 17:
        size = int.from_bytes(records[at + 8 : at + 12], "big") + 12
        if size > len(records) - at:
            break
        is_old = records[at + 16] < 2
        offset = (
            int.from_bytes(records[at : at + 8], "big") if is_old else read_header(records, at).last_offset
        )
        at += size
    return at, offset + 1


def test_serve_lists_the_log_as_if_nothing_were_wrong_with_it(log_dir: Path) -> None:
    wanted = run("serve", "--list", "--verify", "--format", "ndjson", str(log_dir))
    path, byte, bit = damages(log_dir)[1]
    flip(path, byte, bit)
    damaged = run("serve", "--list", "--verify", "--format", "ndjson", str(log_dir))
    assert damaged.stdout != wanted.stdout
    done = run("serve", "--list", "--mend-bits", "--format", "ndjson", str(log_dir))
    assert done.stdout == wanted.stdout
    assert len(TOLD.findall(done.stderr)) == 1


# --- recover --------------------------------------------------------------------------------------------


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    return write_partition(tmp_path / "logs", "orders-0", segments=2)


def test_recover_mends_and_goes_back(orders: Path) -> None:
    whole = read_tree(orders)
    path = sorted(orders.glob("*.log"))[0]
    flip(path, 2000, 5)
    damaged = read_tree(orders)
    words = ("recover", "--format", "ndjson", str(orders))
    assert [row["what"] for row in run(*words).of("recovery")] == ["scan", "cut", "delete"]
    shown = run(*words, "--mend-bits")
    assert shown.exit_code == 4
    mend = shown.of("recovery")[0]
    assert (mend["what"], mend["segment"], mend["first_offset"], mend["last_offset"]) == ("mend", 0, 4, 5)
    assert [one[:3] for one in TOLD.findall(shown.stderr)] == [(str(path).encode(), b"5", b"2000")]
    assert read_tree(orders) == damaged
    done = run(*words, "--mend-bits", "--apply", "--offline")
    assert done.exit_code == 0, done.stderr
    logs = {name: data for name, data in read_tree(orders).items() if name.endswith(".log")}
    assert logs == {name: data for name, data in whole.items() if name.endswith(".log")}
    journal = str(done.of("plan")[0]["journal"])
    assert run("recover", "--undo", journal, "--apply", "--offline").exit_code == 0
    assert read_tree(orders) == damaged


def test_recover_mends_the_same_on_many_processes(orders: Path) -> None:
    shutil.copytree(orders, orders.parent / "orders-1")
    for number, directory in enumerate(("orders-0", "orders-1")):
        flip(sorted((orders.parent / directory).glob("*.log"))[0], 2000 + number, 3)
    words = ("recover", "--mend-bits", "--format", "ndjson", str(orders.parent))
    one, many = run(*words, "--jobs", "1"), run(*words, "--jobs", "2")
    assert one.of("recovery") == many.of("recovery")
    assert sorted(one.stderr.splitlines()) == sorted(many.stderr.splitlines())
    assert len(TOLD.findall(one.stderr)) == 2


def test_verify_names_the_command_that_mends(orders: Path) -> None:
    flip(sorted(orders.glob("*.log"))[0], 2000, 5)
    done = run("verify", "--format", "ndjson", str(orders))
    fixes = [row["fix"] for row in done.of("finding") if row["class"] == "bit_flip"]
    assert fixes == [f"kafkatool recover --mend-bits {orders}"]


def test_doctor_and_recover_name_it_too_where_a_start_would_cut_at_the_bit(orders: Path) -> None:
    log = sorted(orders.glob("*.log"))[-1]
    flip(log, log.stat().st_size - 10, 5)
    command = f"kafkatool recover --mend-bits {orders}"
    done = run("doctor", "--elsewhere", "--format", "ndjson", str(orders.parent))
    (finding,) = (row for row in done.of("finding") if row["severity"] == "loss")
    assert (finding["class"], finding["fix"]) == ("bit_flip", command)
    assert command.encode() in run("recover", str(orders)).stderr
    assert command.encode() not in run("recover", "--mend-bits", str(orders)).stderr
