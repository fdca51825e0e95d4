"""Show what a consumer sees of a partition: its records, and which of them are committed."""
