"""`kafkatool set-aside`."""
