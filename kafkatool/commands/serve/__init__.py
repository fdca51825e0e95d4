"""`kafkatool serve`."""
