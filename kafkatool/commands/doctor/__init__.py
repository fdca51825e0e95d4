"""`kafkatool doctor`."""
