"""Build the rows of each subject; `keys` says what each NDJSON key means."""
