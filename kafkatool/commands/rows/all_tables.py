"""Every kind of row, in the order of kafkatool-ndjson(5)."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from kafkatool.commands.rows import (
    audit,
    batches,
    bench,
    cache,
    compaction,
    diagnosis,
    findings,
    incident,
    listing,
    lookup,
    plans,
    retention,
    serving,
    settings,
    side_files,
    stats,
)
from kafkatool.commands.rows.row_table import RowTable


def _tables_in(*modules: ModuleType) -> Iterator[RowTable]:
    for module in modules:
        yield from (one for one in vars(module).values() if isinstance(one, RowTable))


_IN_ORDER = (
    *_tables_in(batches, side_files, listing, stats, findings, diagnosis, lookup, plans),
    retention.VERDICTS,
    *_tables_in(settings, retention, compaction, cache, bench, serving, audit, incident),
)
ROW_TABLES = {table.kind: table for table in _IN_ORDER}
