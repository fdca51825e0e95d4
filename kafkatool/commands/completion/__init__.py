"""`kafkatool completion`."""
