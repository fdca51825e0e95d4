"""`kafkatool cache-map`."""
