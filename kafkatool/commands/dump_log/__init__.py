"""`kafkatool dump-log`."""
