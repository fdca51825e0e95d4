"""List every command that users are told to run next, quoted so that it can be pasted.

A new advice is an entry in `table.Advice`, with a test that follows it on a real broker.
"""
