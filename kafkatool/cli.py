"""The list of commands, and the only place where errors end: one line on stderr and an exit code."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from kafkatool import __version__
from kafkatool.commands import dump_log, lookup, ls, rebuild_index, recover, verify
from kafkatool.commands.options import DEBUG
from kafkatool.errors import ExitCode, KafkatoolError


class _Commands(TyperGroup):
    """The group of all commands: whatever a command raises becomes an exit code here."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except Exception as error:
            _end(error, debug=ctx.meta.get(DEBUG, False))
        except KeyboardInterrupt:
            _leave(ExitCode.INTERRUPTED)
        return result


def _end(error: Exception, *, debug: bool) -> NoReturn:
    """Say what went wrong, once, and leave with its exit code."""
    if isinstance(error, typer.Exit) or hasattr(error, "show"):  # Typer's own: exits and usage errors
        _flush_or_leave()
        raise error
    if isinstance(error, BrokenPipeError):
        _leave(ExitCode.PIPE_CLOSED)
    if debug:
        import traceback

        traceback.print_exception(error)
    _flush_or_leave()
    print(f"kafkatool: {_one_line(error)}", file=sys.stderr)
    raise typer.Exit(error.exit_code if isinstance(error, KafkatoolError) else ExitCode.FAILED)


def _one_line(error: Exception) -> str:
    if isinstance(error, KafkatoolError):
        return str(error)
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


def _leave(code: ExitCode) -> NoReturn:
    """Go without a word. What is still buffered has no reader, or is not wanted any more."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    raise typer.Exit(code)


app = typer.Typer(
    name="kafkatool",
    cls=_Commands,
    no_args_is_help=True,
    # Plain help starts twice as fast as painted help, and is the same text in a pipe.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(value: bool) -> None:
    if value:
        print(f"kafkatool {__version__}")
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


# The commands, in the order of `kafkatool --help`. Each module brings its function and its EPILOG.
app.command("dump-log", cls=dump_log.KafkaArguments, epilog=dump_log.EPILOG)(dump_log.dump_log)
app.command("ls", epilog=ls.EPILOG)(ls.ls)
app.command("verify", epilog=verify.EPILOG)(verify.verify)
app.command("lookup", epilog=lookup.EPILOG)(lookup.lookup)
app.command("rebuild-index", epilog=rebuild_index.EPILOG)(rebuild_index.rebuild_index)
app.command("recover", epilog=recover.EPILOG)(recover.recover)


def main() -> None:
    """Entry point of the `kafkatool` command."""
    app(prog_name="kafkatool")
