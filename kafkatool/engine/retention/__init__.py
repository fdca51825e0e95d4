"""Which segments a broker would delete, when, and which change of a setting would free space."""
