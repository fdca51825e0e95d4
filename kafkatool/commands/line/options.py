"""Options that several commands share, each defined once, and how they are parsed.

Groups of options are dataclasses, see `option_groups`.
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

__all__ = ["EXIT_CODES", "epilog"]  # imported from here by commands: their help ends with them

# Completion uses a metavar that lists words separated by bars, see completion/words.py.
RELEASES = "3.9|4.0|4.1|4.2|4.3"

# A Typer callback cannot return this, but the final error handler in cli.py needs it.
DEBUG = "kafkatool.debug"


def _remember_debug(context: typer.Context, value: bool) -> bool:
    if value:
        context.meta[DEBUG] = True
    return value


PathsArg = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATH...",
        help="A file, a partition directory, a log directory, server.properties or a quoted glob. For "
        "dump-log and cat also -, a log on standard input.",
    ),
]
FilesFromOpt = Annotated[
    str | None,
    typer.Option(
        "--files-from",
        metavar="FILE",
        help="Read paths from FILE, one per line; - is stdin.",
    ),
]
NulOpt = Annotated[
    bool, typer.Option("-0", "--null", help="Paths in --files-from are separated by NUL bytes.")
]

ReadAsOpt = Annotated[
    str | None,
    typer.Option(
        "--read-as",
        metavar="log|index|timeindex|txnindex|snapshot|checkpoint|NAME",
        help="Read the named files as this kind. By default the file name or the content decides. NAME is "
        "the name of any other Kafka file, such as leader-epoch-checkpoint.",
    ),
]

FormatOpt = Annotated[Format, typer.Option("--format", help="Output format.")]
BytesOpt = Annotated[
    BytesFormat,
    typer.Option(
        "--bytes",
        help='How to write byte strings. With utf8, bytes that are not UTF-8 become {"base64": '
        '"…"} in NDJSON.',
    ),
]
RawOpt = Annotated[
    bool, typer.Option("--raw", help="Show exact numbers instead of human-readable sizes and times.")
]

MaxRateOpt = Annotated[
    str | None,
    typer.Option(
        "--max-rate",
        metavar="SIZE",
        help="Read at most this much per second, for example 50M.",
    ),
]
MaxErrorsOpt = Annotated[
    int | None,
    typer.Option(
        "--max-errors",
        metavar="N",
        min=0,
        help="Stop after more than N unreadable 4 KiB blocks.",
    ),
]
CacheOpt = Annotated[
    str | None,
    typer.Option(
        "--cache",
        metavar="keep",
        help="keep: leave what was read in the page cache. By default the cache is left as it was.",
    ),
]
FailOnOpt = Annotated[
    str,
    typer.Option(
        "--fail-on",
        metavar="note|degraded|no_start|loss",
        help="Exit with 4 for findings of this severity or higher.",
    ),
]
MendBitsOpt = Annotated[
    bool,
    typer.Option(
        "--mend-bits",
        help="Correct a single flipped bit where checksum, length and every record then agree and chance is "
        "ruled out. Each such batch is reported on stderr.",
    ),
]
SampleOpt = Annotated[
    str | None,
    typer.Option(
        "--sample",
        metavar="SHARE",
        help="Read only this share of the data, for example 5%; the same share every time.",
    ),
]
JobsOpt = Annotated[
    int, typer.Option("--jobs", metavar="N", min=0, help="Number of processes; 0 means one per core.")
]

SetOpt = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Topic setting, by Kafka's name. Otherwise the metadata on the disk decides, then Kafka's "
        "default.",
    ),
]
ConfigOpt = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="File with topic settings, or a server.properties, which ranks below the metadata.",
    ),
]
KafkaVersionOpt = Annotated[
    str | None,
    typer.Option(
        "--kafka-version",
        metavar=RELEASES,
        help="Behave as this Kafka release. By default the release that the broker last registered, then "
        "the one of its metadata.version, then the newest.",
    ),
]
QuietOpt = Annotated[bool, typer.Option("-q", "--quiet", help="Print only errors and warnings on stderr.")]
VerboseOpt = Annotated[bool, typer.Option("-v", "--verbose", help="Print more on stderr.")]
NoProgressOpt = Annotated[
    bool, typer.Option("--no-progress", help="Show no progress bar, even on a terminal.")
]
DebugOpt = Annotated[
    bool, typer.Option("--debug", callback=_remember_debug, help="Show a traceback when something fails.")
]


@dataclass(frozen=True, slots=True)
class PathOptions:
    """What a command works on."""

    paths: PathsArg = None
    files_from: FilesFromOpt = None
    nul: NulOpt = False

    def expand(self, *, allow_stdin: bool = False, readable: Collection[FileKind] | None = None) -> Expansion:
        """Expand what was named. Raises UsageError if there is nothing, or a file of another kind.

        `readable` are the kinds of files that may be named directly; by default, all.
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
        """Expand what was named, for commands that need more than a single file. Raises UsageError."""
        from kafkatool.engine.directory.targets import FileTarget

        expansion = self.expand(readable=())
        for target in expansion.targets:
            if isinstance(target, FileTarget):
                raise UsageError(f"{target.path}: name the partition or the log directory, not a file")
        return expansion

    def segment_files(self) -> Expansion:
        """Expand what was named, for commands that need files with segment names. Raises UsageError."""
        from kafkatool.engine.directory.named_file import SEGMENT_FILES
        from kafkatool.engine.directory.targets import FileTarget
        from kafkatool.format.kinds import PRODUCER_SNAPSHOT

        expansion = self.expand(readable=(*SEGMENT_FILES, PRODUCER_SNAPSHOT))
        for target in expansion.targets:
            if isinstance(target, FileTarget) and target.read_as is not None:
                raise UsageError(f"{target.path}: not a file of a segment by its name: a broker ignores it")
        return expansion

    def written(self) -> list[str]:
        """Return the paths as they were typed, to be used as labels. Raises UsageError if there are none."""
        from kafkatool.engine.directory.targets import named_paths

        return named_paths(self.paths or [], files_from=self.files_from, nul=self.nul)


@dataclass(frozen=True, slots=True)
class FileOptions(PathOptions):
    """Paths, for commands that read single files too."""

    read_as: ReadAsOpt = None

    def _read_as(self) -> FileKind | None:
        from kafkatool.engine.directory.named_file import parse_read_as

        return parse_read_as(self.read_as)


@dataclass(frozen=True, slots=True)
class TalkOptions:
    """How every command reports on stderr."""

    quiet: QuietOpt = False
    verbose: VerboseOpt = False
    no_progress: NoProgressOpt = False
    debug: DebugOpt = False

    def talk(self) -> Talk:
        return Talk(quiet=self.quiet, verbose=self.verbose, show_progress=not self.no_progress)


@dataclass(frozen=True, slots=True)
class CommonOptions(TalkOptions):
    """How every command that reads logs reads them, and how it reports."""

    max_rate: MaxRateOpt = None
    max_errors: MaxErrorsOpt = None
    cache: CacheOpt = None

    def guest(self, *, mends_bits: bool = False) -> Guest:
        """Return how to read, and lower this process's disk priority from here on."""
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
    """Parse --fail-on. Raises UsageError."""
    from kafkatool.engine.batches.damage import Severity

    for choice in Severity:
        if choice.label == text:
            return choice
    raise unknown_word("--fail-on", text, [choice.label for choice in Severity])


def share(text: str) -> float:
    """Parse `5%` or `0.05` into a number between 0 and 1. Raises UsageError."""
    from kafkatool.errors import UsageError

    try:
        part = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        part = 0.0
    if not 0 < part <= 1:
        raise UsageError(f"--sample {text!r} is not a share of the data: write for example 5% or 0.05")
    return part
