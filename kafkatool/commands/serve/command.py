"""`kafkatool serve`: let any Kafka client read log directories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kafkatool.commands.line.options import CommonOptions, FormatOpt, PathOptions, RawOpt, epilog
from kafkatool.commands.rows.serving import SERVED, SERVED_COLUMNS, STATE
from kafkatool.commands.screen.table import rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import Format, Row
from kafkatool.commands.serve.options import NetworkOptions, ShownOptions
from kafkatool.engine.batches.row_fields import values
from kafkatool.errors import ExitCode, KafkatoolError, Refused, UsageError

if TYPE_CHECKING:
    from kafkatool.engine.directory.selection import Selection
    from kafkatool.engine.files.source import Guest
    from kafkatool.engine.serve.catalog import Catalog
    from kafkatool.engine.serve.partitions import ServedPartition
    from kafkatool.engine.transactions.verdicts import TransactionVerdicts

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
    from kafkatool.engine.directory.selection import Selection
    from kafkatool.engine.directory.targets import FileTarget

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
    from kafkatool.engine.serve.catalog import make_catalog

    catalog = make_catalog(found, choice, how)
    _tell_catalog(catalog, speak)
    if not catalog.topics:
        raise UsageError("there is nothing to serve here")
    if only_list:
        from kafkatool.engine.transactions.verdicts import TransactionVerdicts

        with rows(fmt, SERVED_COLUMNS, raw=raw) as writer:
            verdicts = TransactionVerdicts([home.log_dir for home in found.homes], expansion.named, guest)
            shown_rows = [_row(one, verdicts, guest) for one in catalog.partitions()]
            for row in shown_rows:
                writer.write(row)
        is_whole = all(row["log_end_offset"] is not None for row in shown_rows) and not found.unread
        raise typer.Exit(ExitCode.OK if is_whole else ExitCode.FAILED)
    from kafkatool.commands.serve.running import Session

    if network.offsets_file is not None:
        _refuse_inside(network.offsets_file, found)
    session = Session(settings, network, choice, how, found, catalog, guest, speak, fmt)
    session.run()


def _tell_mends(guest: Guest, speak: Talk) -> None:
    from kafkatool.engine.batches.mending import Mender

    if isinstance(guest.mending, Mender):
        guest.mending.tell = lambda mend: speak.warn(f"{mend.path}: {mend.message}")


def _tell_catalog(catalog: Catalog, speak: Talk) -> None:
    for note in catalog.notes:
        speak.note(note)
    for word, count in sorted(catalog.left_out.items()):
        partitions, them = ("partition", "it") if count == 1 else ("partitions", "them")
        speak.note(f"left out: {count} {word} {partitions}; --include {word} serves {them}")


def _refuse_inside(path: str, found: Selection) -> None:
    from kafkatool.engine.records.subject import is_inside

    for home in found.homes:
        if is_inside(path, home.path):
            raise Refused(f"--offsets-file {path}: it is in {home.path}, where nothing is ever written")


def _row(partition: ServedPartition, verdicts: TransactionVerdicts, guest: Guest) -> Row:
    assert partition.partition is not None
    try:
        state = partition.state()
    except KafkatoolError as error:
        return SERVED.row(partition, **values(STATE, None), note=str(error))
    held_by = _holder(partition, state.log_start, verdicts, guest) if state.open_transactions else None
    remarks = partition.remarks()
    if held_by is not None:
        remarks.append(held_by.words)
    known = values(STATE, state) | {
        "checkpointed_high_watermark": partition.checkpointed,
        "held_by": None if held_by is None else held_by.row,
    }
    return SERVED.row(partition, **known, note="; ".join(remarks) or None)


class _Holder(NamedTuple):
    """The transaction that holds the last stable offset."""

    row: Row
    words: str


def _holder(
    partition: ServedPartition, log_start: int, verdicts: TransactionVerdicts, guest: Guest
) -> _Holder | None:
    """Return the holder; None if transactions cannot be read from the log: serving does not depend on it.

    A directory that no broker serves has no coordinator any more.
    """
    from kafkatool.commands.rows.transactions import transaction_row, transaction_sentence
    from kafkatool.engine.directory.log_dir import PartitionState
    from kafkatool.engine.transactions.open_transactions import read_open_transactions

    directory = partition.partition
    if directory is None or partition.home is None or directory.state is not PartitionState.ACTIVE:
        return None
    try:
        found = read_open_transactions(directory, guest, log_start=log_start)
    except (FileNotFoundError, KafkatoolError):
        return None
    judged = verdicts.of(partition.home, (found or [])[:1])
    if not judged:
        return None
    return _Holder(transaction_row(judged[0]), transaction_sentence(judged[0], "it holds the stable offset"))
