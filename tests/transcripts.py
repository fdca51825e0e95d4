"""Shell transcripts in Markdown: README.md and `tests/commands/transcripts/` are run, lest they rot.

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
from collections.abc import Callable, Iterator
from pathlib import Path

_OF_THE_DISK = "ALLOCATED|LEFTOVERS|(?:RESIDENT|SHARE|INDEXES|DIRTY)(?=.*  MAP$)"
ROOT = Path(__file__).parent.parent
Play = Callable[[str, Path], Iterator[str]]
PER_COMMAND = Path(__file__).parent / "commands" / "transcripts"
BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)


def transcripts() -> list[Path]:
    """The files that hold any."""
    return [ROOT / "README.md", *sorted(PER_COMMAND.glob("*.md"))]


def prepare(directory: Path) -> None:
    """Make the directory that commands run in."""
    script = ROOT / "examples" / "sample_log_dir.py"
    subprocess.run([sys.executable, script, directory / "sample"], env=_environment(directory), check=True)
    (directory / "bin").mkdir()
    shim = directory / "bin" / "kafkatool"
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kafkatool "$@"\n')
    shim.chmod(0o755)


def replay(text: str, directory: Path, *, play: Play | None = None, on_spark: bool = False) -> str:
    """The same text with what its commands print now; blocks of the other kind stay as they are."""
    how = play or _play

    def replayed(block: re.Match[str]) -> str:
        return "".join(how(block[0], directory)) if needs_spark(block[0]) == on_spark else block[0]

    return BLOCK.sub(replayed, text)


def needs_spark(block: str) -> bool:
    return block.startswith(("$ kafkatool sql", "$ kafkatool pipeline run"))


def commands(text: str) -> list[str]:
    """The commands of all blocks."""
    return [line[2:] for block in BLOCK.findall(text) for line in block.splitlines() if line.startswith("$ ")]


def mask(text: str) -> str:
    """The text without what depends on the disk and the page cache: what files take of them, what is free."""
    text = re.sub(r'(allocated":|bytes_free":)\d+', r"\1N", text)
    text = re.sub(r", [\d.]+[BKMGTP] free;", ", N free;", text)
    text = re.sub(r'((resident|dirty|writeback|evicted)_(pages|size)":)\d+', r"\1N", text)
    text = re.sub("[░▒▓]", "█", text)
    return "\n".join(_mask_columns(text.splitlines()))


def _play(block: str, directory: Path) -> Iterator[str]:
    last_code = 0
    for command in commands(f"```console\n{block}```\n"):
        # A shell for each command; `$?` is handed on so that `echo $?` says what it would.
        done = subprocess.run(
            ["bash", "-c", f"(exit {last_code})\n{command}"],
            cwd=directory,
            env=_environment(directory),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        last_code = done.returncode
        yield f"$ {command}\n{done.stdout.decode()}".replace(str(directory.resolve()), "/path/to")


def _environment(directory: Path) -> dict[str, str]:
    return {
        "PATH": f"{directory / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }


def _mask_columns(lines: list[str]) -> Iterator[str]:
    """Blank the cells below ALLOCATED and LEFTOVERS, which are flush right, until the table ends."""
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
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name))
        for path in transcripts():
            before = path.read_text()
            after = replay(replay(before, Path(name)), Path(name), on_spark=True)
            if mask(after) != mask(before):  # another machine has other free space, and nothing to tell by it
                path.write_text(after)


if __name__ == "__main__":
    main()
