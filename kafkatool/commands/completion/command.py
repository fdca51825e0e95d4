"""`kafkatool completion`: print a script that completes commands in a shell."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from kafkatool.commands.line.command_line import epilog, leaves
from kafkatool.commands.line.options import TalkOptions

EPILOG = epilog(
    {
        "kafkatool completion bash >> ~/.bash_completion": "for bash",
        "kafkatool completion zsh > ~/.zfunc/_kafkatool": "for zsh, where ~/.zfunc is in the fpath",
        "kafkatool completion fish > ~/.config/fish/completions/kafkatool.fish": "for fish",
    }
)


class Shell(StrEnum):
    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(
    context: typer.Context,
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell.")],
    *,
    common: TalkOptions,
) -> None:
    """Print a shell script that completes commands, options, their values, and paths.

    In a log directory a topic stands for all its partitions: orders-* for orders-0 and orders-1. An installed
    kafkatool includes the scripts, in share/bash-completion/completions, share/zsh/site-functions and
    share/fish/vendor_completions.d beside its bin, where shells look if that is /usr or /usr/local. kafkatool
    itself does not run while you type.
    """
    from kafkatool.commands.completion import bash, fish, zsh
    from kafkatool.commands.completion.words import words_of

    root = context.find_root().command
    words = words_of(root, leaves(root))
    scripts = {
        Shell.bash: bash.script,
        Shell.zsh: zsh.script,
        Shell.fish: fish.script,
    }
    print(scripts[shell](words), end="")
