"""Change a log directory so that it can be undone: a plan, its journal, applying it and the way back.

Nothing else in the engine changes a file that a broker wrote, the log writer aside.
"""
