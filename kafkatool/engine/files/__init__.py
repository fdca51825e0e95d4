"""The bytes of single files: read as a guest, written through `Files`, locked, copied with all they have.

Nothing here knows what the bytes mean. Whatever opens, syncs, renames or removes a file is in this room.
"""
