"""`kafkatool lookup`."""
