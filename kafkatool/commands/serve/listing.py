"""The output of `serve` before it serves: what is left out, and with --list what would be served."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kafkatool.commands.rows.serving import SERVED, SERVED_COLUMNS, STATE
from kafkatool.commands.rows.transactions import transaction_row, transaction_sentence
from kafkatool.commands.screen.table import rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import Format, Row
from kafkatool.engine.batches.row_fields import values
from kafkatool.engine.directory.log_dir import PartitionState
from kafkatool.engine.directory.selection import Selection
from kafkatool.engine.files.source import Guest
from kafkatool.engine.serve.catalog import Catalog
from kafkatool.engine.serve.partitions import ServedPartition
from kafkatool.engine.transactions.open_transactions import read_open_transactions
from kafkatool.engine.transactions.verdicts import TransactionVerdicts
from kafkatool.errors import KafkatoolError


def tell_catalog(catalog: Catalog, speak: Talk) -> None:
    """Report what is to be known about the whole, and what is left out."""
    for note in catalog.notes:
        speak.note(note)
    for word, count in sorted(catalog.left_out.items()):
        partitions, them = ("partition", "it") if count == 1 else ("partitions", "them")
        speak.note(f"left out: {count} {word} {partitions}; --include {word} serves {them}")


def list_served(
    found: Selection, catalog: Catalog, named: Sequence[str], guest: Guest, fmt: Format, *, raw: bool
) -> bool:
    """Show each partition that would be served; return whether all could be read."""
    with rows(fmt, SERVED_COLUMNS, raw=raw) as writer:
        verdicts = TransactionVerdicts([home.log_dir for home in found.homes], named, guest)
        shown = [_row(one, verdicts, guest) for one in catalog.partitions()]
        for row in shown:
            writer.write(row)
    return all(row["log_end_offset"] is not None for row in shown) and not found.unread


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
