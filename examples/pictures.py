"""Draw pictures of a terminal from real runs: `python examples/pictures.py` writes docs/pictures/*.svg.

Every command runs in its own terminal, on what `sample_log_dir.py` writes.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "pictures"
COLUMNS, ROWS = 200, 60

PICTURES = {
    "verify": ["kafkatool verify sample", "kafkatool verify -v sample/clicks-1"],
    "dump-log": ["kafkatool dump-log --format table sample/clicks-1"],
    "lookup": ["kafkatool lookup --time 2026-03-01T09:02:00Z --explain sample/clicks-0"],
    "recover": ["kafkatool recover sample/clicks-1 --keep-after-damage saved"],
    "stats": ["kafkatool stats --deep sample/orders-0"],
}

# Readable on light and on dark pages.
_NORMAL = "3c4250 eb6e6e 82c882 e6be64 78a5f0 c88cdc 64c8cd c8cdd7"
_BRIGHT = "788091 ff8282 96dc96 f5d278 8cb9ff dca0f0 78dce1 f5f7fa"
THEME = TerminalTheme(
    (27, 31, 40),
    (222, 226, 233),
    *([(*bytes.fromhex(colour),) for colour in colours.split()] for colours in (_NORMAL, _BRIGHT)),
)
# The default frame of rich loads its fonts from the network.
FRAME = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace; font-size: {char_height}px;
line-height: {line_height}px; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        subprocess.run(
            [sys.executable, ROOT / "examples" / "sample_log_dir.py", place / "sample"], check=True
        )
        for title, commands in PICTURES.items():
            (FOLDER / f"{title}.svg").write_text(picture(commands, place))


def picture(commands: list[str], place: Path) -> str:
    """Return what a terminal shows after these commands, as wide as needed."""
    lines: list[Text] = []
    for command in commands:
        lines.append(Text.assemble(("$ ", "green"), (command, "bold")))
        lines += Text.from_ansi(played(command, place)).split()
    width = max(line.cell_len for line in lines)
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="256")
    console.print(*lines, sep="\n")
    return console.export_svg(title="kafkatool", theme=THEME, code_format=FRAME, unique_id="terminal")


def played(command: str, place: Path) -> str:
    """Return what a terminal shows after a command."""
    child, screen = pty.fork()
    if not child:
        os.chdir(place)
        os.environ.update(TERM="xterm-256color", PYTHONPATH=str(ROOT), LC_ALL="C.UTF-8", TZ="UTC")
        os.environ.pop("NO_COLOR", None)
        os.execv(sys.executable, [sys.executable, "-m", *shlex.split(command), "--no-progress"])
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    painted = bytearray()
    try:
        while piece := os.read(screen, 1 << 16):
            painted += piece
    except OSError:  # a terminal reports EIO when the last program has closed it
        pass
    os.waitpid(child, 0)
    return painted.decode().replace("\r\n", "\n").rstrip("\n")


if __name__ == "__main__":
    main()
