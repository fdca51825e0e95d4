"""`kafkatool compact`."""
