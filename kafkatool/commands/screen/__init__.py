"""What is shown: tables, NDJSON, pages, progress, and the talk on stderr."""
