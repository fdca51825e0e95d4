"""Decide which segments a broker would delete, and which setting would free space."""
