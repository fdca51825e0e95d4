"""Show results: tables, NDJSON, pages, progress, and messages on stderr."""
