"""`kafkatool report`."""
