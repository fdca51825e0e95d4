"""What a row of each subject holds, and how it looks as a table; `keys` says what each NDJSON key means."""
