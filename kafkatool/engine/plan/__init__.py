"""Change a log directory so that it can be undone: plan, journal, apply, undo.

Apart from the log writer, nothing else in the engine changes a file that a broker wrote.
"""
