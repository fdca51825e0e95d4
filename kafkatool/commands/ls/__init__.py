"""`kafkatool ls`."""
