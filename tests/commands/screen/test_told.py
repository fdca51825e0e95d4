"""What a run says on its way is said when it says it; its results are left."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from kafkatool.commands.screen.outcome import RunOutcome
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.told import told
from kafkatool.engine.batches.damage import Severity, SeverityMet
from kafkatool.engine.jobs.events import Caution, Failure, Note
from kafkatool.errors import ExitCode

Said = Note | Caution | Failure | SeverityMet | int


def a_run(ended: list[str] | None = None) -> Generator[Said, None, None]:
    try:
        yield Note("one")
        yield 1
        yield Caution("two")
        yield SeverityMet(Severity.DEGRADED)
        yield 2
        yield Failure("three")
    finally:
        if ended is not None:
            ended.append("cleared away")


def test_what_is_said_comes_before_the_result_that_follows_it(capsys: pytest.CaptureFixture[str]) -> None:
    results = told(a_run(), Talk(), RunOutcome())
    found = [(number, capsys.readouterr().err) for number in results]
    assert found == [(1, "kafkatool: one\n"), (2, "kafkatool: two\n")]
    assert capsys.readouterr().err == "kafkatool: three\n"


def test_a_quiet_user_hears_no_notes(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(told(a_run(), Talk(quiet=True), RunOutcome())) == [1, 2]
    assert capsys.readouterr().err == "kafkatool: two\nkafkatool: three\n"


def test_what_a_run_met_decides_how_it_ends() -> None:
    outcome = RunOutcome()
    results = told(a_run(), Talk(quiet=True), outcome)
    assert next(results) == 1
    assert outcome.exit_code(Severity.DEGRADED) is ExitCode.OK
    assert next(results) == 2
    assert outcome.exit_code(Severity.DEGRADED) is ExitCode.FOUND
    assert outcome.exit_code(Severity.LOSS) is ExitCode.OK
    assert list(results) == []
    assert outcome.exit_code(Severity.LOSS) is ExitCode.FAILED


def test_a_run_has_cleared_away_when_an_error_in_between_arrives() -> None:
    """Though whoever caught the error still holds the frames that hold the run."""
    ended: list[str] = []

    def show(run: Generator[Said, None, None]) -> None:
        for _result in told(run, Talk(quiet=True), RunOutcome()):
            raise OSError("no space")

    with pytest.raises(OSError, match="no space") as caught:
        show(a_run(ended))
    assert ended == ["cleared away"]
    assert caught.tb is not None
