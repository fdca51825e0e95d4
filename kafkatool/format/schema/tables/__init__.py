"""The messages of the internal topics, in the notation of `schema/notation.py`: written by `make schemas`."""
