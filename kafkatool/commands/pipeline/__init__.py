"""`kafkatool pipeline`."""
