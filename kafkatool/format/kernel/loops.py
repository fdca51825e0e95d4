"""Export the kernel's functions, compiled where possible. reference.py says what each one promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatool.format.kernel import chosen

if TYPE_CHECKING or chosen is None:
    from kafkatool.format.kernel.reference import (
        IndexCounts,
        KeyOffsets,
        Tally,
        arena_rows,
        batch_lines,
        batch_rows,
        body_rows,
        deep_lines,
        encode_batches,
        gather,
        good_run,
        hashes,
        index_columns,
        judge_records,
        kept_batches,
        record_bytes,
        record_rows,
        records_hold,
        rising,
    )
else:
    from kafkatool.format.kernel.compiled import (
        IndexCounts,
        KeyOffsets,
        Tally,
        arena_rows,
        batch_lines,
        batch_rows,
        body_rows,
        deep_lines,
        encode_batches,
        gather,
        good_run,
        hashes,
        index_columns,
        judge_records,
        kept_batches,
        record_bytes,
        record_rows,
        records_hold,
        rising,
    )

__all__ = [
    "IndexCounts",
    "KeyOffsets",
    "Tally",
    "arena_rows",
    "batch_lines",
    "batch_rows",
    "body_rows",
    "deep_lines",
    "encode_batches",
    "gather",
    "good_run",
    "hashes",
    "index_columns",
    "judge_records",
    "kept_batches",
    "record_bytes",
    "record_rows",
    "records_hold",
    "rising",
]
