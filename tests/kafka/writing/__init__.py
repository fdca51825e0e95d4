"""Logs that are written, cleaned and deleted from as a broker would."""
