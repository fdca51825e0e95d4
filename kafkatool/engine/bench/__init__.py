"""Measure the append path, reads and look-ups, and compare two measurements."""
