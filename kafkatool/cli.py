"""The list of commands, and the only place where errors end: one line on stderr and an exit code."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from kafkatool import __version__
from kafkatool.commands.line.command_line import Command, HelpOrder, complaint, epilog, leaves
from kafkatool.commands.line.option_groups import flat
from kafkatool.errors import EXTRAS, ExitCode, KafkatoolError, MissingExtra

__all__ = ["app", "leaves", "main"]

# The commands, in the order of `kafkatool --help`, each with a few words on its purpose.
COMMANDS = {
    "dump-log": "Show what Kafka's files hold, in Kafka's own text or as rows.",
    "cat": "Print records, by default as a consumer would get them.",
    "export": "Write records to Parquet, Arrow, CSV or NDJSON files.",
    "ls": "List topics, partitions, segments and files, and their space.",
    "stats": "Count batches, records, codecs, producers, times and keys.",
    "verify": "Check every batch and every file beside it.",
    "doctor": "Check whether a broker will start, and what it would lose.",
    "report": "Write one page for a ticket: what is wrong, what to do.",
    "lookup": "Find an offset or a time, and explain the search.",
    "rebuild-index": "Rebuild indexes and producer snapshots from the log.",
    "recover": "Show what a broker would do after a crash, or do it.",
    "set-aside": "Remove a partition so that its broker fetches it again.",
    "retention": "Show what a broker would delete, when, and why not more.",
    "compact": "Show what the log cleaner would keep, or compact the log.",
    "cache-map": "Show which parts of the logs are in the page cache.",
    "sql": "Query logs with SQL: records, batches, segments.",
    "pipeline": "Audit many brokers into tables, and compare two audits.",
    "bench": "Measure appends, reads and lookups on this disk.",
    "serve": "Let Kafka clients read log directories.",
    "completion": "Print a completion script for bash, zsh or fish.",
}
_EPILOG = epilog(
    {
        "kafkatool ls /var/lib/kafka/data": "list what is on this disk",
        "kafkatool verify server.properties": "check it for damage",
        "kafkatool recover /var/lib/kafka/data": "show what a broker would do at its next start",
        "kafkatool cat --tail 5 /var/lib/kafka/data/orders-0": "print the last records of a partition",
        "kafkatool help cat": "show the help of a command",
    },
    4,
    5,
)
# Plain help starts twice as fast as coloured help; in a pipe the text is the same.
_PLAIN: dict[str, Any] = {"rich_markup_mode": None, "pretty_exceptions_enable": False}
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class _Lazily(Mapping[str, Any]):
    """The commands by name. A module is imported only when its command is asked for, for a quick start.

    `kafkatool.commands.ls`, or `command` in a package like `kafkatool.commands.cat`, provides `cat()`, its
    EPILOG and, if needed, its COMMAND_CLASS. A module that provides SUBCOMMANDS and HELP instead is a group:
    `bench append` is `bench_append()` in `kafkatool.commands.bench.append`.
    """

    def __init__(self, names: Mapping[str, str], group: str | None = None) -> None:
        self._names, self._group = names, group

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        return _command(name, self._group)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@cache
def _command(name: str, group: str | None) -> Any:
    """Return a command by its name; built once, as that takes longer than many runs of a command."""
    words = [word.replace("-", "_") for word in (group, name) if word is not None]
    module = import_module(".".join(("kafkatool.commands", *words)))
    if hasattr(module, "__path__"):  # large verbs are packages
        module = import_module(f"{module.__name__}.command")
    if hasattr(module, "SUBCOMMANDS"):
        return _Group(name, module.SUBCOMMANDS, module.HELP, module.EPILOG)
    single = typer.Typer(**_PLAIN, context_settings=_CONTEXT, add_completion=False)
    kind = getattr(module, "COMMAND_CLASS", Command)
    single.command(name, cls=kind, epilog=module.EPILOG)(flat(getattr(module, "_".join(words))))
    return typer.main.get_command(single)


class _Group(HelpOrder, TyperGroup):
    """A command that has commands of its own."""

    def __init__(self, name: str, names: Mapping[str, str], text: str, ending: str) -> None:
        super().__init__(name=name, help=text, epilog=ending, no_args_is_help=True, context_settings=_CONTEXT)
        self.rich_markup_mode = None
        self.commands: Any = _Lazily(names, name)
        self.summaries = names

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries.items()))


class _Commands(HelpOrder, TyperGroup):
    """The group of all commands: whatever a command raises becomes an exit code here."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = _Lazily(COMMANDS)
        self.summaries = COMMANDS

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read `kafkatool help bench append` as `kafkatool bench append --help`."""
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            _end(error, ctx)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [*COMMANDS.items(), ("help", "Show the help of a command: kafkatool help verify.")]
            )

    def invoke(self, ctx: Any) -> Any:
        try:
            if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # see __main__.py
                signal.signal(signal.SIGINT, signal.default_int_handler)
            result = super().invoke(ctx)
            sys.stdout.flush()
        except Exception as error:
            _end(error, ctx)
        except KeyboardInterrupt:
            _leave(ExitCode.INTERRUPTED)
        return result


def _end(error: Exception, ctx: Any) -> NoReturn:
    """Report an error, once, and exit with its code."""
    from kafkatool.commands.line.options import DEBUG
    from kafkatool.commands.screen.values import printable

    if isinstance(error, typer.Exit) or _is_help(error):
        _flush_or_leave()
        raise error
    if hasattr(error, "format_message"):  # Typer's own: usage errors
        print(f"kafkatool: {printable(complaint(error))}", file=sys.stderr)
        raise typer.Exit(ExitCode.USAGE)
    if isinstance(error, BrokenPipeError):
        _leave(ExitCode.PIPE_CLOSED)
    if ctx.meta.get(DEBUG, False):
        import traceback

        traceback.print_exception(error)
    _flush_or_leave()
    print(f"kafkatool: {printable(_one_line(error))}", file=sys.stderr)
    raise typer.Exit(error.exit_code if isinstance(error, KafkatoolError) else ExitCode.FAILED)


def _is_help(error: Exception) -> bool:
    """Return whether the error is Typer's way to show the help because nothing was typed."""
    return type(error).__name__ == "NoArgsIsHelpError"


def _one_line(error: Exception) -> str:
    if isinstance(error, KafkatoolError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        return str(MissingExtra("this needs", error.name))
    if isinstance(error, MemoryError):
        return "out of memory; --max-batch-size bounds what one batch may take"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    return (
        f"this should not happen: {type(error).__name__}: {error}; please report it with the command, "
        f"kafkatool {__version__} and what --debug shows"
    )


def _flush_or_leave() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _leave(ExitCode.PIPE_CLOSED)
    except OSError as error:
        _complain_of_stdout(error)
        _leave(ExitCode.FAILED)


def _complain_of_stdout(error: OSError) -> None:
    print(f"kafkatool: standard output: {error.strerror}", file=sys.stderr)


def _leave(code: ExitCode) -> NoReturn:
    """Exit silently. Output that is still buffered has no reader, or is no longer wanted."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    raise typer.Exit(code)


app = typer.Typer(
    name="kafkatool",
    cls=_Commands,
    epilog=_EPILOG,
    no_args_is_help=True,
    context_settings=_CONTEXT,
    add_completion=False,  # `kafkatool completion` writes better ones
    **_PLAIN,
)


def _show_version(value: bool) -> None:
    if value:
        from kafkatool.format import kernel

        print(f"kafkatool {__version__} (kernel: {kernel.name()})")
        raise typer.Exit


@app.callback()
def kafkatool(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Read, prove, repair and explain Apache Kafka's on-disk logs: no broker, no JVM.

    Nothing is ever written into a log directory unless a command says so and --apply is given.
    """


def main() -> None:
    """Run the `kafkatool` command."""
    # numpy would start a thread per core for linear algebra that is never used, before workers are forked.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        app(prog_name="kafkatool")
        code: object = ExitCode.OK
    except SystemExit as ending:
        # Typer would exit with 1 if the reader of its help went away.
        code = ExitCode.PIPE_CLOSED if isinstance(ending.__context__, BrokenPipeError) else ending.code
    except OSError as error:  # from printing the help itself: errors of commands are handled before
        _complain_of_stdout(error)
        code = ExitCode.FAILED
    _go(code if isinstance(code, int) else ExitCode.FAILED)


def _go(code: int) -> NoReturn:
    """Exit at once: tearing down the interpreter is a tenth of a short run; the kernel cleans up anyway."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            code = code or ExitCode.PIPE_CLOSED
        except OSError as error:
            if stream is sys.stdout:
                _complain_of_stdout(error)
            code = code or ExitCode.FAILED
    os._exit(code)
