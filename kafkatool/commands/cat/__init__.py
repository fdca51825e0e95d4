"""`kafkatool cat`."""
