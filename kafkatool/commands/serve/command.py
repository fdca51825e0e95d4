"""`kafkatool serve`: let any Kafka client read log directories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.options import CommonOptions, FormatOpt, PathOptions, RawOpt, epilog
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import Format
from kafkatool.commands.serve.options import NetworkOptions, ShownOptions
from kafkatool.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from kafkatool.engine.files.source import Guest

EPILOG = epilog(
    {
        "kafkatool serve /var/lib/kafka/data": "every topic of a disk, to clients on this machine",
        "kafkatool serve --list /var/lib/kafka/data": "show what would be served, and how far",
        "kafkatool serve --listen 127.0.0.1:0 --format ndjson orders-0": "one partition, on any free port",
        "kafkatool serve --rename orders-0.f00-delete=orders-before /var/lib/kafka/data": "a deleted topic",
        "kafkatool serve --listen 0.0.0.0:9093 --tls-cert server.pem --users users DIR": ("over a network"),
    },
    5,
)


def serve(
    where: PathOptions,
    *,
    shown: ShownOptions,
    network: NetworkOptions,
    only_list: Annotated[bool, typer.Option("--list", help="Show what would be served, and exit.")] = False,
    fmt: FormatOpt = Format.table,
    raw: RawOpt = False,
    common: CommonOptions,
) -> None:
    """Serve log directories to Kafka clients, read-only, over Kafka's own protocol.

    Any consumer can read every partition: kcat, the console consumer, client libraries, MirrorMaker. Records
    go from the page cache to the socket by sendfile(2). Consumer groups work, starting from the committed
    offsets on the disk; nothing is ever written to the directories. The cluster's ACLs do not apply here.
    """
    from kafkatool.commands.serve.listing import list_served, tell_catalog
    from kafkatool.engine.directory.selection import Selection
    from kafkatool.engine.directory.targets import FileTarget
    from kafkatool.engine.serve.catalog import make_catalog

    speak, guest = common.talk(), common.guest(mends_bits=shown.mend_bits)
    _tell_mends(guest, speak)
    expansion = where.expand(readable=())
    if files := [one.path for one in expansion.targets if isinstance(one, FileTarget)]:
        raise UsageError(f"{files[0]}: serve takes directories")
    choice, how = shown.choice(), shown.serving(guest)
    settings = network.settings()
    found = Selection(expansion.targets, guest)
    for problem in [*expansion.problems, *found.unread]:
        speak.warn(problem)
    catalog = make_catalog(found, choice, how)
    tell_catalog(catalog, speak)
    if not catalog.topics:
        raise UsageError("there is nothing to serve here")
    if only_list:
        is_whole = list_served(found, catalog, expansion.named, guest, fmt, raw=raw)
        raise typer.Exit(ExitCode.OK if is_whole else ExitCode.FAILED)
    from kafkatool.commands.serve.running import Session

    network.refuse_inside(found)
    session = Session(settings, network, choice, how, found, catalog, guest, speak, fmt)
    session.run()


def _tell_mends(guest: Guest, speak: Talk) -> None:
    from kafkatool.engine.batches.mending import Mender

    if isinstance(guest.mending, Mender):
        guest.mending.tell = lambda mend: speak.warn(f"{mend.path}: {mend.message}")
