"""Change a log directory so that it can be undone: plan, journal, apply, undo.

Nothing else in the engine changes a file that a broker wrote, the log writer aside.
"""
