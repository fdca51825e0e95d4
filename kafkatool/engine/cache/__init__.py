"""Which parts of the logs are in the page cache, and how to bring them in or drop them."""
