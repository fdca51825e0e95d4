"""A start of a broker on damaged directories: as foretold, and after `recover`."""
