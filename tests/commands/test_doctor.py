"""kafkatool doctor: what it prints, how it ends, and that it leaves everything as it was."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafkatool.commands.rows.diagnosis import finding_lines
from kafkatool.engine.batches.damage import FindingClass, Severity
from kafkatool.engine.doctor.symptoms import host_finding
from kafkatool.format.names import segment_file
from tests.cli import rows_of, run
from tests.engine.partitions_to_verify import SEGMENT, write_healthy_log_dir
from tests.log_dirs import locked


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Nothing is wrong with it."""
    path = write_healthy_log_dir(tmp_path / "logs", isr=[1])
    with (path / "meta.properties").open("a") as file:
        file.write("directory.id=J8mNqR5sTuV2wXyZ3aBcDg\n")
    return path


rows = partial(rows_of, "doctor")


def diagnosis(*arguments: object) -> dict[str, Any]:
    last = rows(*arguments)[-1]
    assert last["kind"] == "diagnosis"
    return last


def test_a_directory_in_order_ends_with_0_and_says_that_it_starts(log_dir: Path) -> None:
    done = run("doctor", "--elsewhere", str(log_dir))
    assert done.exit_code == 0
    verdict, summary = done.stdout.decode().splitlines()
    assert verdict == f"{log_dir}: starts, and loses nothing that is on its disks"
    assert summary.endswith("; no findings")


def test_the_verdict_is_the_first_line_and_every_finding_has_its_command_below(log_dir: Path) -> None:
    (log_dir / "recovery-point-offset-checkpoint").write_text("7\n")
    done = run("doctor", "--elsewhere", str(log_dir))
    assert done.exit_code == 4
    verdict, finding, command, _summary = done.stdout.decode().splitlines()
    assert verdict == f"{log_dir}: will not start"
    assert finding.startswith("no_start  ")
    assert command.startswith("          mv ")


def test_fail_on_decides_about_the_exit_code(log_dir: Path) -> None:
    (log_dir / "orders-0" / segment_file(0, ".index")).unlink()
    words = "doctor", "--elsewhere", str(log_dir)
    assert [run(*words, "--fail-on", severity).exit_code for severity in ("degraded", "no_start")] == [4, 0]


def test_all_that_is_found_is_an_object_and_the_verdict_comes_last(log_dir: Path) -> None:
    os.truncate(log_dir / "orders-0" / segment_file(2 * SEGMENT, ".log"), 100)
    finding, found = rows("--elsewhere", log_dir)
    assert (finding["kind"], finding["class"], finding["severity"]) == ("finding", "torn_tail", "loss")
    assert found["verdict"] == "loses"
    assert found["lost_offsets"] == SEGMENT
    assert found["lost_partitions"] == ["orders-0"]
    assert found["message"] == f"starts and loses {SEGMENT} offsets in 1 partition"


def test_a_csv_has_the_findings_and_stderr_the_verdict(log_dir: Path) -> None:
    (log_dir / "nobody").mkdir()
    done = run("doctor", "-q", "--elsewhere", "--format", "csv", str(log_dir))
    assert done.stdout.count(b"\n") == 2
    assert b"will not start" in done.stderr


def test_while_a_broker_runs_that_is_the_verdict_and_nothing_is_foretold(log_dir: Path) -> None:
    (log_dir / "nobody").mkdir()
    with locked(log_dir) as pid:
        found = diagnosis(log_dir)
        text = run("doctor", str(log_dir)).stdout.decode()
    assert (found["verdict"], found["pid"], found["lost_offsets"]) == ("running", pid, 0)
    assert f"a broker is running on it (process {pid})" in text
    assert diagnosis(log_dir)["verdict"] == "no_start"


def test_brokers_are_judged_one_by_one_and_the_worst_decides(log_dir: Path, tmp_path: Path) -> None:
    other = write_healthy_log_dir(tmp_path / "other", isr=[1])
    (other / "meta.properties").write_text("version=1\nnode.id=9\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\n")
    (other / "nobody").mkdir()
    done = run("doctor", "--elsewhere", str(log_dir), str(other))
    assert done.exit_code == 4
    lines = done.stdout.decode().splitlines()
    assert [line for line in lines if line.startswith(str(tmp_path))] == [
        f"{log_dir}: starts, and loses nothing that is on its disks",
        f"{other}: will not start",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--user", "no-such-user", "DIR"], b"no such user on this host"),
        (["DIR/orders-0"], b"name its log directory"),
        (["DIR/meta.properties"], b"name its log directory"),
        (["DIR/../gone"], b"No such file"),
        ([], b"no PATH given"),
        (["--sample", "7", "DIR"], b"is not a share"),
        (["--fail-on", "x", "DIR"], b"is not one of note"),
    ],
)
def test_what_makes_no_sense_is_said_and_ends_with_2(
    log_dir: Path, arguments: list[str], words: bytes
) -> None:
    done = run("doctor", *(word.replace("DIR", str(log_dir)) for word in arguments))
    assert done.exit_code == 2
    assert words in done.stderr


def test_a_configuration_whose_directories_are_all_gone_is_a_broker_that_does_not_start(
    tmp_path: Path,
) -> None:
    config = tmp_path / "server.properties"
    config.write_text(f"process.roles=broker\nnode.id=1\nlog.dirs={tmp_path}/a,{tmp_path}/b\n")
    done = run("doctor", str(config))
    assert done.exit_code == 4
    assert done.stdout.startswith(f"{config}: will not start\n".encode())
    assert done.stdout.count(b"is its volume mounted?") == 2


def test_nothing_is_changed_not_even_the_time_of_the_last_access(log_dir: Path) -> None:
    def state() -> dict[str, tuple[int, int, int]]:
        found = {}
        for path in sorted(log_dir.rglob("*")):
            if path.is_file():
                status = path.stat()
                found[str(path)] = (status.st_size, status.st_mtime_ns, status.st_atime_ns)
        return found

    before = state()
    run("doctor", str(log_dir))
    assert state() == before


def test_a_long_list_is_cut_and_says_so() -> None:
    one = host_finding("f", FindingClass.GAP, Severity.LOSS, "m", "do it")
    note = host_finding("f", FindingClass.GAP, Severity.NOTE, "m", None)
    lines = list(finding_lines([one] * 40 + [note], every=False))
    assert len(lines) == 2 * 30 + 1
    assert lines[-1] == ("", "… and 10 more, -v shows them")
    assert len(list(finding_lines([one] * 40 + [note], every=True))) == 2 * 40 + 1
