"""What `doctor` says of a broker's directories, to be held against what a broker then does."""

from __future__ import annotations

from typing import NamedTuple

from tests.cli import run


class Diagnosis(NamedTuple):
    """The verdict, offsets lost by partition (and of which there may be more), and the classes found."""

    verdict: str
    lost_offsets: int
    is_at_least: bool
    lost_partitions: frozenset[str]
    row: dict[str, object]
    findings: list[dict[str, object]]


def diagnose(*arguments: str) -> Diagnosis:
    """`kafkatool doctor` with these arguments."""
    done = run("doctor", "--format", "ndjson", *arguments)
    assert done.exit_code in (0, 4), (done.stdout + done.stderr).decode()
    *findings, row = done.rows
    assert row["kind"] == "diagnosis"
    return Diagnosis(
        row["verdict"],
        row["lost_offsets"],
        row["lost_at_least"],
        frozenset(row["lost_partitions"]),
        row,
        findings,
    )
