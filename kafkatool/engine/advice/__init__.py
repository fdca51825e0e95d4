"""The commands that users are told to run next: one table, quoted so that each can be pasted.

A new advice is an entry of `table.Advice`, with a test that follows it on a real broker.
"""
