"""`kafkatool bench`."""
