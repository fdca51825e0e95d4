"""List log directories, and find what the user named in them.

Directories are listed only here, once per `Selection`; all other code works with the resulting `LogDir` and
`Partition` objects.
"""
