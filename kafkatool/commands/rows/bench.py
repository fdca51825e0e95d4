"""What `bench` measures, as rows."""

from __future__ import annotations

from kafkatool.commands.rows.row_table import RowTable
from kafkatool.commands.screen.table import Column, Look
from kafkatool.engine.batches.row_fields import flag, items, real, text, word

METRICS = RowTable(
    "bench_metric",
    "bench-append",
    "A number that bench append, bench read or bench lookup measured.",
    text("name", "what was measured"),
    text("unit", "its unit"),
    real("value", "the number"),
    flag("higher_is_better", "whether more of it is better; null where neither is"),
    items("samples", "the same of parts of the run, in their order", lambda metric: list(metric.samples)),
)
METRIC_COLUMNS = METRICS.columns(
    name="WHAT",
    text=Column("text", "VALUE", Look.number),
    unit="UNIT",
    spread=Column("spread", "", blank=""),
)
CHANGES = RowTable(
    "bench_change",
    "bench-compare",
    "A number of two results beside each other.",
    text("name", "what was measured"),
    text("unit", "its unit"),
    real("before", "in the first result"),
    real("after", "in the second"),
    real("change", "the difference as a share of the first; null where that is 0", "share"),
    real("noise", "the share that it varies by, three standard errors; null where there are no samples"),
    word("verdict", "better, worse, changed or same"),
)
CHANGE_COLUMNS = (
    Column("name", "WHAT"),
    Column("before_text", "BEFORE", Look.number),
    Column("after_text", "AFTER", Look.number),
    Column("unit", "UNIT"),
    Column("change_text", "CHANGE", Look.number),
    Column("noise_text", "NOISE", Look.number),
    Column("verdict", "VERDICT"),
)
