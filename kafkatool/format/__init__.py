"""Convert bytes to values and back. No paths, files, clocks or sockets here."""
