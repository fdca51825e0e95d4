"""Measure appends, reads and look-ups, and compare two measurements."""
