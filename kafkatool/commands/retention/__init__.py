"""`kafkatool retention`."""
