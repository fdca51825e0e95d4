"""What every key of every NDJSON row means: the text of kafkatool-ndjson(5), a file for each command.

The rows themselves are made by the commands, in modules called `..._rows`; a test compares the two.
"""

from __future__ import annotations

from kafkatool.commands.rows.keys import (
    bench,
    cache_map,
    compact,
    doctor,
    dump_log,
    lookup,
    ls,
    pipeline,
    plan,
    report,
    retention,
    serve,
    side_files,
    stats,
    verify,
)
from kafkatool.commands.rows.keys.row_kind import RowKind

ROW_KINDS: dict[str, RowKind] = {
    **dump_log.ROW_KINDS,
    **side_files.ROW_KINDS,
    **ls.ROW_KINDS,
    **stats.ROW_KINDS,
    **verify.ROW_KINDS,
    **doctor.ROW_KINDS,
    **lookup.ROW_KINDS,
    **plan.ROW_KINDS,
    **retention.ROW_KINDS,
    **compact.ROW_KINDS,
    **cache_map.ROW_KINDS,
    **bench.ROW_KINDS,
    **serve.ROW_KINDS,
    **pipeline.ROW_KINDS,
    **report.ROW_KINDS,
}
