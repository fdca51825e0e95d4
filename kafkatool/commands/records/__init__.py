"""Records on their way to `cat` and `export`: which are read, in which order, and as which lines."""
