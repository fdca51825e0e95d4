"""Command lines that need an extra, with its name."""

from __future__ import annotations

NEEDING = {
    "export -o rows.parquet sample": "arrow",
    "export --format arrow -o rows sample": "arrow",
    "ls s3://bucket/logs": "arrow",
    "verify s3://bucket/logs": "arrow",
    "pipeline collect --output part sample": "arrow",
    "pipeline report lake": "arrow",
    "pipeline run --out lake sample": "spark",
    "sql -q TABLE sample": "spark",
    "verify --spark local[1] sample": "spark",
}
