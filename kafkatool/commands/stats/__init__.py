"""`kafkatool stats`."""
