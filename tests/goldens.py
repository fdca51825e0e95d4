"""What Kafka's own dump tool printed for the fixtures: one `golden.json` beside the files of each case.

The file is a list of runs: `args` (the case's directory is `@DIR@`), the `releases` that printed this,
`stdout` and `stderr` as lines, and `threw` if an exception left the tool (its stack trace is not kept; what
was printed before it is). A text that does not end in a newline lacks the empty last line. Texts repeat each
other, so an element of `stdout` is a line or `[start, count]`: that many lines from the pool of all stdout
lines before it in this file. A Java object identity is masked as `[B@identity`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kafkatool.format.release import Release
from tests import cli
from tests.places import FIXTURES

FILE_NAME = "golden.json"
DIR = "@DIR@"

# A shorter reference saves nothing and hides a line from the reader.
_WORTH_A_REFERENCE = 24
_CANDIDATES = 40

Packed = list[str | list[int]]


class Run(NamedTuple):
    """One call of the tool, with what several releases printed alike."""

    args: list[str]
    releases: list[str]
    stdout: str
    stderr: str
    exit_code: int
    threw: bool


class Golden(NamedTuple):
    """What one release printed for one call; `@DIR@` in args and texts stands for `case`."""

    case: Path
    args: list[str]
    release: str
    stdout: str
    stderr: str
    exit_code: int
    threw: bool

    @property
    def id(self) -> str:
        """A name for a test: where, how, which release."""
        words = " ".join(self.args).replace("--files ", "").replace("@DIR@/", "")
        return f"{self.case.parent.name}/{self.case.name}:{words}:{self.release}"


def load_goldens(fixtures: Path = FIXTURES) -> Iterator[Golden]:
    """Yield all goldens, by case, call and release."""
    for path in sorted(fixtures.glob(f"*/*/{FILE_NAME}")):
        for run in read_runs(path.read_text()):
            for release in run.releases:
                yield Golden(path.parent, run.args, release, *run[2:])


def mask_identities(text: str) -> str:
    """Mask the default toString of Java arrays: it contains an address, which differs in every run."""
    return re.sub(r"\[B@[0-9a-f]+", "[B@identity", text)


def write_runs(runs: Iterable[Run]) -> str:
    """Return the text of a golden file."""
    pool: list[str] = []
    rows = []
    for run in runs:
        row: dict[str, object] = {"args": run.args, "releases": run.releases}
        row["stdout"] = _pack(run.stdout.split("\n"), pool)
        if run.stderr:
            row["stderr"] = run.stderr.split("\n")
        if run.exit_code:
            row["exit_code"] = run.exit_code
        if run.threw:
            row["threw"] = True
        rows.append(row)
    return "[\n" + ",\n".join(_write_row(row) for row in rows) + "\n]\n"


def read_runs(text: str) -> Iterator[Run]:
    """Yield the runs of a golden file."""
    pool: list[str] = []
    for row in json.loads(text):
        yield Run(
            row["args"],
            row["releases"],
            "\n".join(_unpack(row["stdout"], pool)),
            "\n".join(row.get("stderr", [])),
            row.get("exit_code", 0),
            row.get("threw", False),
        )


def _write_row(row: dict[str, object]) -> str:
    """Write short things on one line, and each line of the tool on its own."""
    fields = []
    for name, value in row.items():
        if name in ("stdout", "stderr") and isinstance(value, list):
            lines = ",\n".join(f"   {_json(line)}" for line in value)
            fields.append(f'  "{name}": [\n{lines}\n  ]')
        else:
            fields.append(f'  "{name}": {_json(value)}')
    return " {\n" + ",\n".join(fields) + "\n }"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _pack(lines: Sequence[str], pool: list[str]) -> Packed:
    places: dict[str, list[int]] = {}
    for position, line in enumerate(pool):
        places.setdefault(line, []).append(position)
    packed: Packed = []
    at = 0
    while at < len(lines):
        start, count = _longest(lines, at, pool, places.get(lines[at], [])[-_CANDIDATES:])
        if sum(map(len, lines[at : at + count])) > _WORTH_A_REFERENCE:
            packed.append([start, count])
        else:
            count = 1
            packed.append(lines[at])
        at += count
    pool.extend(lines)
    return packed


def _longest(lines: Sequence[str], at: int, pool: Sequence[str], starts: Sequence[int]) -> tuple[int, int]:
    best = (0, 0)
    for start in starts:
        count = 0
        limit = min(len(lines) - at, len(pool) - start)
        while count < limit and lines[at + count] == pool[start + count]:
            count += 1
        if count > best[1]:
            best = (start, count)
    return best


def _unpack(packed: Packed, pool: list[str]) -> list[str]:
    lines: list[str] = []
    for part in packed:
        if isinstance(part, str):
            lines.append(part)
        else:
            start, count = part
            lines.extend(pool[start : start + count])
    pool.extend(lines)
    return lines


def check_golden(golden: Golden) -> None:
    """Check that we print what Kafka's tool printed."""
    place = str(golden.case)
    arguments = [word.replace(DIR, place) for word in golden.args]
    label = Release.parse(golden.release).label
    ours = cli.run("dump-log", "--compat", label, *arguments)
    text = mask_identities(ours.stdout.decode().replace(place, DIR))
    talk = "\n".join(line.decode() for line in ours.kafka_stderr).replace(place, DIR)
    if golden.threw:
        assert text.startswith(golden.stdout), golden.id
        return
    assert text == golden.stdout, golden.id
    ours_told, theirs_told = talk.split("\n"), golden.stderr.strip("\n").split("\n")
    if any("," in word for word in golden.args):  # Kafka reports several files in any order
        ours_told, theirs_told = sorted(ours_told), sorted(theirs_told)
    assert ours_told == theirs_told, golden.id
