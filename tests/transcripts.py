"""Run shell transcripts in Markdown: README, tour and `tests/commands/transcripts/` must stay true.

In a ```console block, `$ ` begins a command, and what follows is what it printed, stderr included. Commands
run with bash, in a directory that holds `sample`, written by `examples/sample_log_dir.py`. Blocks that
begin with a command that needs Spark are for `tests/spark` to run, where it is started once.

    python -m tests.transcripts        run them all and write down what they print now
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from shlex import quote

from tests.places import ROOT

_OF_THE_DISK = "ALLOCATED|LEFTOVERS|(?:RESIDENT|SHARE|INDEXES|DIRTY)(?=.*  MAP$)"
Play = Callable[[str, Path], Iterator[str]]
PAGES = (ROOT / "README.md", ROOT / "docs" / "tour.md")
PER_COMMAND = Path(__file__).parent / "commands" / "transcripts"
BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)


def transcripts() -> list[Path]:
    """Return the files that hold any."""
    return [*PAGES, *sorted(PER_COMMAND.glob("*.md"))]


_PROGRAM = (sys.executable, "-m", "kafkatool")


def prepare(directory: Path, program: Sequence[str | Path] = _PROGRAM) -> None:
    """Prepare the directory that commands run in, with this program as `kafkatool`."""
    write_sample(directory / "sample")
    write_programs(directory, program)


def write_sample(path: Path) -> None:
    """Write the log directory of the examples."""
    script = ROOT / "examples" / "sample_log_dir.py"
    subprocess.run([sys.executable, script, path], env=environment(path.parent), check=True)


def write_programs(directory: Path, program: Sequence[str | Path] = _PROGRAM) -> None:
    """Write wrappers for this tree's commands, and its Python, where `environment` finds them."""
    (directory / "bin").mkdir()
    for name, words in {"kafkatool": program, "python3": (sys.executable,)}.items():
        shim = directory / "bin" / name
        shim.write_text(f'#!/bin/sh\nexec {" ".join(quote(str(word)) for word in words)} "$@"\n')
        shim.chmod(0o755)


def replay(text: str, directory: Path, *, play: Play | None = None, on_spark: bool = False) -> str:
    """Return the text with what its commands print now; blocks of the other kind are unchanged."""
    how = play or _play

    def replayed(block: re.Match[str]) -> str:
        return "".join(how(block[0], directory)) if needs_spark(block[0]) == on_spark else block[0]

    return BLOCK.sub(replayed, text)


def needs_spark(block: str) -> bool:
    return block.startswith(("$ kafkatool sql", "$ kafkatool pipeline run"))


def commands(text: str) -> list[str]:
    """Return the commands of all blocks."""
    return [line[2:] for block in BLOCK.findall(text) for line in block.splitlines() if line.startswith("$ ")]


def mask(text: str) -> str:
    """Return the text without what depends on the disk and the page cache: allocated and free sizes."""
    text = re.sub(r'(allocated":|bytes_free":)\d+', r"\1N", text)
    text = re.sub(r", [\d.]+[BKMGTP] free;", ", N free;", text)
    text = re.sub(r'((resident|dirty|writeback|evicted)_(pages|size)":)\d+', r"\1N", text)
    text = re.sub(r'(resident_ranges":)\[.*?\]+(?=[,}])', r"\1N", text)
    text = re.sub("[░▒▓]", "█", text)
    return "\n".join(_mask_columns(text.splitlines()))


def _play(block: str, directory: Path) -> Iterator[str]:
    last_code = 0
    for command in commands(f"```console\n{block}```\n"):
        # One shell per command; `$?` is passed on so that `echo $?` works.
        done = subprocess.run(
            ["bash", "-c", f"(exit {last_code})\n{command}"],
            cwd=directory,
            env=environment(directory),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        last_code = done.returncode
        yield f"$ {command}\n{without_chance(done.stdout.decode(), directory)}"


def without_chance(text: str, directory: Path) -> str:
    """Return the output as it would be in another directory and in a run with another id."""
    text = re.sub(r"(?<=\.kafkatool-)[0-9a-f]{12}\b", "4be1f07a92c3", text)
    return text.replace(str(directory.resolve()), "/path/to")


def environment(directory: Path) -> dict[str, str]:
    """Return the environment of commands, without that of the tests."""
    return {
        "PATH": f"{directory / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }


def _mask_columns(lines: list[str]) -> Iterator[str]:
    """Blank the cells below ALLOCATED and LEFTOVERS, which are right-aligned, until the table ends."""
    spans: list[tuple[int, int]] = []
    for line in lines:
        if found := [match.span() for match in re.finditer(_OF_THE_DISK, line)]:
            spans = found
        elif line.startswith(("$", "`")):
            spans = []
        else:
            for start, end in spans:
                line = line[:start] + " " * len(line[start:end]) + line[end:]
        yield line.rstrip()


def main() -> None:
    from tests.library_examples import LIBRARY
    from tests.library_examples import replay as replay_library

    for path in [*transcripts(), LIBRARY]:
        with tempfile.TemporaryDirectory() as name:  # of its own: one example may write what another reads
            prepare(Path(name))
            before = path.read_text()
            if path == LIBRARY:
                after = replay_library(before, Path(name))
            else:
                after = replay(replay(before, Path(name)), Path(name), on_spark=True)
        if mask(after) != mask(before):  # other machines only differ in free space
            path.write_text(after)


if __name__ == "__main__":
    main()
