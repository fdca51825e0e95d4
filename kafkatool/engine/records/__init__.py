"""What a consumer sees of a partition: its records, which of them are committed, and where they go."""
