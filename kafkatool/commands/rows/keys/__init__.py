"""What every key of every NDJSON row means: the text of kafkatool-ndjson(5), a file for each command.

The rows themselves are made by the commands, in modules called `..._rows`; a test compares the two.
"""

from __future__ import annotations

from types import ModuleType

from kafkatool.commands.rows import (
    batches,
    cache,
    compaction,
    diagnosis,
    findings,
    listing,
    plans,
    retention,
    settings,
    side_files,
    stats,
)
from kafkatool.commands.rows.keys import (
    bench,
    lookup,
    pipeline,
    report,
    serve,
)
from kafkatool.commands.rows.keys.row_kind import RowKind
from kafkatool.commands.rows.row_table import RowTable


def tables_of(module: ModuleType) -> dict[str, RowKind]:
    tables = [one for one in vars(module).values() if isinstance(one, RowTable)]
    return {
        table.kind: RowKind(
            table.command,
            table.meaning,
            {field.key: field.meaning for field in table.fields},
            frozenset(field.key for field in table.fields if field.optional),
        )
        for table in tables
    }


ROW_KINDS: dict[str, RowKind] = {
    **tables_of(batches),
    **tables_of(side_files),
    **tables_of(listing),
    **tables_of(stats),
    **tables_of(findings),
    **tables_of(diagnosis),
    **lookup.ROW_KINDS,
    **tables_of(plans),
    "verdict": tables_of(retention)["verdict"],
    **tables_of(settings),
    **tables_of(retention),
    **tables_of(compaction),
    **tables_of(cache),
    **bench.ROW_KINDS,
    **serve.ROW_KINDS,
    **pipeline.ROW_KINDS,
    **report.ROW_KINDS,
}
