"""`kafkatool verify`."""
