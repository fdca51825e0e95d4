"""Read records for `cat` and `export`, in order, and format them as lines."""
