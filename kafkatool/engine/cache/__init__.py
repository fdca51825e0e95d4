"""Show which parts of the logs are in the page cache, and load or drop them."""
