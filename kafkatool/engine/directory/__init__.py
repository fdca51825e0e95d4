"""List log directories, and find what the user named in them.

Directories are listed here, each once for a `Selection`; everybody else works with the `LogDir` and
`Partition` that come of it.
"""
