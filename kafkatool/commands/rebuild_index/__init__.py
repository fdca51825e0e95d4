"""`kafkatool rebuild-index`."""
