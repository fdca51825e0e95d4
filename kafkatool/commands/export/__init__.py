"""`kafkatool export`."""
