"""`kafkatool recover`."""
