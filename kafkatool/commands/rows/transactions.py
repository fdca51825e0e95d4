"""Open transactions as rows and sentences, the same in every command."""

from __future__ import annotations

from kafkatool.commands.screen.values import Row, human_duration, iso_time
from kafkatool.engine.batches.row_fields import items
from kafkatool.engine.transactions.verdicts import JudgedTransaction, transaction_words

OPEN_TRANSACTIONS = items(
    "open_transactions",
    "objects: producer_id, producer_epoch, transactional_id (null where no __transaction_state at hand has "
    "it), first_offset, first_timestamp_ms (null where that batch does not tell), last_timestamp_ms, age_ms "
    "(at --at, or at the newest time on the disks), "
    "verdict (in_progress, will_be_aborted, will_be_committed, hanging, marker_lost, ask_coordinator), "
    "ends_by_ms (when it has ended by itself at the latest, its coordinator running; null where nothing says "
    "so), why (in words), fix (the command that ends it; null where none is to be given)",
)


def transaction_row(judged: JudgedTransaction) -> Row:
    one = judged.transaction
    return {
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "transactional_id": judged.transactional_id,
        "first_offset": one.first_offset,
        "first_timestamp_ms": one.first_timestamp_ms,
        "last_timestamp_ms": one.last_timestamp_ms,
        "age_ms": judged.age_ms,
        "verdict": str(judged.verdict),
        "ends_by_ms": judged.ends_by_ms,
        "why": judged.why,
        "fix": judged.fix,
    }


def transaction_sentence(judged: JudgedTransaction, effect: str) -> str:
    """Say whose it is, its age, what happens to it and to the log, and what to do about it, if anything.

    A command comes last, so that it can be copied.
    """
    age = f"for {human_duration(judged.age_ms)}"
    last = f"its last batch is of {iso_time(judged.transaction.last_timestamp_ms)}"
    words = f"{transaction_words(judged)}, {age}, {last}: {judged.verdict}: {judged.why}"
    if judged.ends_by_ms is not None and judged.fix is None:
        words += f", by {iso_time(judged.ends_by_ms)}"
    words += f"; {effect}"
    return words if judged.fix is None else f"{words}; to end it: {judged.fix}"
