"""Options that many commands share mean the same in each of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli import run
from tests.fixtures_of_logs import LOG_DIRECTORIES
from tests.logs import batches, write_log


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    """A log directory whose only log ends in the middle of a batch."""
    write_log(tmp_path / "data" / "orders-0", b"".join(batches(4))[:-3])
    return tmp_path / "data"


OF_DAMAGE = ["lookup --offset 9999", "rebuild-index", "recover", "verify", "stats", "cat", "dump-log"]


@pytest.mark.parametrize("words", OF_DAMAGE)
def test_lost_records_are_4_however_high_the_bar_is(words: str, torn: Path) -> None:
    assert run(*words.split(), "-q", "--fail-on", "loss", str(torn)).exit_code == 4
    assert run(*words.split(), "-q", "--fail-on", "los", str(torn)).exit_code == 2


def test_what_is_less_than_asked_for_is_no_4(tmp_path: Path) -> None:
    """A broker that takes a directory offline loses nothing yet."""
    write_log(tmp_path / "data" / "orders-0", b"".join(batches(4)))
    (tmp_path / "data" / "recovery-point-offset-checkpoint").write_text("0\n1\nnonsense\n")
    told = [run("recover", "-q", "--fail-on", name, str(tmp_path / "data")) for name in ("no_start", "loss")]
    assert [one.exit_code for one in told] == [4, 0]
    assert told[0].stdout == told[1].stdout


@pytest.mark.parametrize("command", ["rebuild-index", "recover"])
@pytest.mark.parametrize("content", ["index.interval.bytes=1\n", "log.dirs=/x\nlog.index.interval.bytes=1\n"])
def test_a_file_of_settings_does_what_set_does(command: str, content: str, tmp_path: Path) -> None:
    write_log(tmp_path / "data" / "orders-0", b"".join(batches(20)))
    config = tmp_path / "some.properties"
    config.write_text(content)
    given = ["--format", "ndjson", str(tmp_path / "data")]

    def sizes(*more: str) -> list[object]:
        rows = run(command, *more, *given).rows
        return [row["size_after"] for row in rows if row["kind"] == "step" and row["file"].endswith("index")]

    assert sizes("--config", str(config)) == sizes("--set", "index.interval.bytes=1") != sizes()
    dense = ["--config", str(config), "--set", "index.interval.bytes=4096"]
    assert sizes(*dense) == sizes("--set", "index.interval.bytes=4096")


def test_a_configuration_in_a_list_is_one(tmp_path: Path) -> None:
    """A server.properties that --files-from names counts like one on the command line."""
    write_log(tmp_path / "data" / "orders-0", b"".join(batches(4)))
    server = tmp_path / "server.properties"
    server.write_text(f"log.dirs={tmp_path / 'data'}\nlog.retention.bytes=12345\n")
    (tmp_path / "list").write_text(f"{server}\n")
    named = run("retention", "--at", "0", str(server))
    listed = run("retention", "--at", "0", "--files-from", str(tmp_path / "list"))
    assert b"retention.bytes=12345" in named.stderr
    assert listed == named
    doctor = ("doctor", "--quick", "--format", "ndjson")
    assert run(*doctor, "--files-from", str(tmp_path / "list")) == run(*doctor, str(server))


@pytest.mark.parametrize(
    "words", ["retention --check-times --at 0", "compact --set cleanup.policy=compact --at 0"]
)
def test_any_number_of_processes_says_the_same(words: str, tmp_path: Path) -> None:
    for number in range(5):
        write_log(tmp_path / "data" / f"orders-{number}", b"".join(batches(4)))
    told = [run(*words.split(), "--jobs", jobs, str(tmp_path / "data")) for jobs in ("1", "3")]
    assert told[0] == told[1]
    assert told[0].exit_code == 0
    assert b"orders-4" in told[0].stdout


def test_results_of_benchmarks_can_be_had_exactly(tmp_path: Path) -> None:
    metric = {"name": "rate", "unit": "MB/s", "value": 1234.5678, "higher_is_better": True, "samples": []}
    result = {"kind": "bench", "bench": "read", "machine": {}, "settings": {}, "metrics": [metric]}
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps(result))
    paths = [str(tmp_path / "a.json"), str(tmp_path / "b.json")]
    done = run("bench", "compare", "--raw", *paths)
    assert b"1234.5678" in done.stdout
    assert b"1234.5678" not in run("bench", "compare", *paths).stdout


def test_records_with_secrets_are_not_printed_if_so_wanted(tmp_path: Path) -> None:
    log = next(path for path in LOG_DIRECTORIES if path.name == "__cluster_metadata-0")
    everything = run("cat", "--all", "--format", "ndjson", str(log))
    some = run("cat", "--all", "--format", "ndjson", "--redact", str(log))
    assert b"may show credentials" in everything.stderr
    assert b"may show credentials" not in some.stderr
    hidden = len(everything.stdout.splitlines()) - len(some.stdout.splitlines())
    assert hidden > 0
    assert f"left out because they contain secrets: {hidden}".encode() in some.stderr
