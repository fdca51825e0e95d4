"""Rows of `bench`."""

from __future__ import annotations

from kafkatool.commands.rows.keys.row_kind import RowKind

ROW_KINDS: dict[str, RowKind] = {
    "bench_metric": RowKind(
        "bench-append",
        "A number that bench append, bench read or bench lookup measured.",
        {
            "name": "what was measured",
            "unit": "its unit",
            "value": "the number",
            "higher_is_better": "whether more of it is better; null where neither is",
            "samples": "the same of parts of the run, in their order",
        },
    ),
    "bench_change": RowKind(
        "bench-compare",
        "A number of two results beside each other.",
        {
            "name": "what was measured",
            "unit": "its unit",
            "before": "in the first result",
            "after": "in the second",
            "change": "the difference as a share of the first; null where that is 0",
            "noise": "the share that it varies by, three standard errors; null where there are no samples",
            "verdict": "better, worse, changed or same",
        },
    ),
}
