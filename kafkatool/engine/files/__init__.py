"""Read single files as a guest, write them through `Files`, lock them, copy them with all they have.

Nothing here knows what the bytes mean. All code that opens, syncs, renames or removes a file is here.
"""
