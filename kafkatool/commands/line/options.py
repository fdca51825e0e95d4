"""Options that several commands share, each said once, and what is made of them.

Those that come together are dataclasses, see `groups`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.command_line import EXIT_CODES, epilog
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import BytesFormat, Format
from kafkatool.errors import UsageError, unknown_word

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafkatool.engine.batches.damage import Severity
    from kafkatool.engine.directory.targets import Expansion
    from kafkatool.engine.files.source import Guest, Mending
    from kafkatool.format.kinds import FileKind

__all__ = ["EXIT_CODES", "epilog"]  # every command's help ends with them, so they are found here too

# A metavar that lists words with bars between them is completed from, see `completion_words`.
RELEASES = "3.9|4.0|4.1|4.2|4.3"

# What a Typer parameter's callback cannot return, the last resort in cli.py still has to know.
DEBUG = "kafkatool.debug"


def _remember_debug(context: typer.Context, value: bool) -> bool:
    if value:
        context.meta[DEBUG] = True
    return value


PathsArg = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATH...",
        show_default=False,
        help="A file, a partition directory, a log directory, server.properties, a quoted glob, "
        "or, for dump-log and cat, - for a log on standard input.",
    ),
]
FilesFromOpt = Annotated[
    str | None,
    typer.Option(
        "--files-from",
        metavar="FILE",
        show_default=False,
        help="Read paths from FILE, one a line; - is stdin.",
    ),
]
NulOpt = Annotated[bool, typer.Option("-0", "--null", help="Paths in --files-from end with NUL.")]

ReadAsOpt = Annotated[
    str | None,
    typer.Option(
        "--read-as",
        metavar="log|index|timeindex|txnindex|snapshot|checkpoint|NAME",
        show_default=False,
        help="Read the files named as this; by default as what their names say or their bytes prove. "
        "NAME is that of another file of Kafka's, such as leader-epoch-checkpoint.",
    ),
]

FormatOpt = Annotated[Format, typer.Option("--format", help="How results are written.")]
BytesOpt = Annotated[
    BytesFormat,
    typer.Option(
        "--bytes", help='How byte strings are written; in utf8, others become {"base64": "…"} in NDJSON.'
    ),
]
RawOpt = Annotated[bool, typer.Option("--raw", help="Exact numbers instead of human sizes and times.")]

MaxRateOpt = Annotated[
    str | None,
    typer.Option(
        "--max-rate",
        metavar="SIZE",
        show_default=False,
        help="Read at most this much a second, for example 50M.",
    ),
]
MaxErrorsOpt = Annotated[
    int | None,
    typer.Option(
        "--max-errors",
        metavar="N",
        min=0,
        show_default=False,
        help="Stop after more than N unreadable 4 KiB blocks.",
    ),
]
CacheOpt = Annotated[
    str | None,
    typer.Option(
        "--cache",
        metavar="keep",
        show_default=False,
        help="keep: leave in the page cache what was read; by default it is as before.",
    ),
]
FailOnOpt = Annotated[
    str,
    typer.Option(
        "--fail-on",
        metavar="note|degraded|no_start|loss",
        help="Least severity that means exit 4.",
    ),
]
MendBitsOpt = Annotated[
    bool,
    typer.Option(
        "--mend-bits",
        help="Flip a single flipped bit back where checksum, length and every record then agree and chance "
        "is ruled out; each such batch is told on stderr.",
    ),
]
SampleOpt = Annotated[
    str | None,
    typer.Option(
        "--sample",
        metavar="SHARE",
        show_default=False,
        help="Read only this share of the data, for example 5%; the same share every time.",
    ),
]
JobsOpt = Annotated[
    int, typer.Option("--jobs", metavar="N", min=0, help="Processes to use; 0 means one for every core.")
]

SetOpt = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        show_default=False,
        help="A setting of the topics, by Kafka's name; else the metadata on the disk says, or the default.",
    ),
]
ConfigOpt = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        show_default=False,
        help="Settings of the topics, or a server.properties, which ranks below what the metadata sets.",
    ),
]
KafkaVersionOpt = Annotated[
    str | None,
    typer.Option(
        "--kafka-version",
        metavar=RELEASES,
        show_default=False,
        help="Behave as this release; by default as the one that the broker last registered with, by the "
        "metadata on the disk, else as that of its metadata.version, else the newest.",
    ),
]
QuietOpt = Annotated[
    bool, typer.Option("-q", "--quiet", help="Say nothing on stderr but errors and warnings.")
]
VerboseOpt = Annotated[bool, typer.Option("-v", "--verbose", help="Say more on stderr.")]
NoProgressOpt = Annotated[bool, typer.Option("--no-progress", help="No progress bar, even on a terminal.")]
DebugOpt = Annotated[
    bool, typer.Option("--debug", callback=_remember_debug, help="Show a traceback where something fails.")
]


@dataclass(frozen=True, slots=True)
class PathOptions:
    """What a command is about."""

    paths: PathsArg = None
    files_from: FilesFromOpt = None
    nul: NulOpt = False

    def expand(self, *, allow_stdin: bool = False, readable: Collection[FileKind] | None = None) -> Expansion:
        """What was named. Raises UsageError where that is nothing, or a file of another kind.

        `readable` are the kinds of files that can be read where one is named itself; by default, all.
        """
        from kafkatool.engine.directory.named_file import READABLE
        from kafkatool.engine.directory.targets import FileReading, expand

        files = FileReading(
            self._read_as(),
            READABLE if readable is None else readable,
            allow_pipe=allow_stdin,
            offers_read_as=isinstance(self, FileOptions),
        )
        return expand(
            self.paths or [],
            files_from=self.files_from,
            nul=self.nul,
            allow_stdin=allow_stdin,
            files=files,
        )

    def _read_as(self) -> FileKind | None:
        return None

    def directories(self) -> Expansion:
        """What was named, for those to whom a single file says too little. Raises UsageError."""
        from kafkatool.engine.directory.targets import FileTarget

        expansion = self.expand(readable=())
        for target in expansion.targets:
            if isinstance(target, FileTarget):
                raise UsageError(f"{target.path}: name the partition or the log directory, not a file")
        return expansion

    def segment_files(self) -> Expansion:
        """What was named, for those who want files of a segment by their names. Raises UsageError."""
        from kafkatool.engine.directory.named_file import SEGMENT_FILES
        from kafkatool.engine.directory.targets import FileTarget
        from kafkatool.format.kinds import PRODUCER_SNAPSHOT

        expansion = self.expand(readable=(*SEGMENT_FILES, PRODUCER_SNAPSHOT))
        for target in expansion.targets:
            if isinstance(target, FileTarget) and target.read_as is not None:
                raise UsageError(f"{target.path}: not a file of a segment by its name: a broker ignores it")
        return expansion

    def written(self) -> list[str]:
        """The names as they were written, for those who label them. Raises UsageError where there is none."""
        from kafkatool.engine.directory.targets import named_paths

        return named_paths(self.paths or [], files_from=self.files_from, nul=self.nul)


@dataclass(frozen=True, slots=True)
class FileOptions(PathOptions):
    """The same for commands that read single files too."""

    read_as: ReadAsOpt = None

    def _read_as(self) -> FileKind | None:
        from kafkatool.engine.directory.named_file import parse_read_as

        return parse_read_as(self.read_as)


@dataclass(frozen=True, slots=True)
class TalkOptions:
    """How every command talks."""

    quiet: QuietOpt = False
    verbose: VerboseOpt = False
    no_progress: NoProgressOpt = False
    debug: DebugOpt = False

    def talk(self) -> Talk:
        return Talk(quiet=self.quiet, verbose=self.verbose, show_progress=not self.no_progress)


@dataclass(frozen=True, slots=True)
class CommonOptions(TalkOptions):
    """The same, and how every command that reads logs does it."""

    max_rate: MaxRateOpt = None
    max_errors: MaxErrorsOpt = None
    cache: CacheOpt = None

    def guest(self, *, mends_bits: bool = False) -> Guest:
        """How to read; from here on this process goes last at the disk."""
        from kafkatool.commands.line.arguments import parse_rate
        from kafkatool.engine.files.page_cache import idle_io_priority, keep_freed_memory
        from kafkatool.engine.files.source import Guest

        if self.cache not in (None, "keep"):
            raise unknown_word("--cache", self.cache, ["keep"])
        idle_io_priority()
        keep_freed_memory()
        return Guest(
            cache_keep=self.cache == "keep",
            max_rate=None if self.max_rate is None else parse_rate(self.max_rate),
            max_errors=self.max_errors,
            mending=_mender() if mends_bits else None,
        )


def _mender() -> Mending:
    from kafkatool.engine.batches.mending import Mender

    return Mender()


def severity(text: str) -> Severity:
    """What --fail-on takes. Raises UsageError."""
    from kafkatool.engine.batches.damage import Severity

    for choice in Severity:
        if choice.label == text:
            return choice
    raise unknown_word("--fail-on", text, [choice.label for choice in Severity])


def share(text: str) -> float:
    """`5%` or `0.05` as a number between 0 and 1. Raises UsageError."""
    from kafkatool.errors import UsageError

    try:
        part = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        part = 0.0
    if not 0 < part <= 1:
        raise UsageError(f"--sample {text!r} is not a share of the data: write for example 5% or 0.05")
    return part
