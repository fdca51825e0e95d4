"""Files to facts and back: the only layer that opens, reads, writes, syncs and renames."""
