"""Advice, runbooks and `set-aside` followed to the letter on what real brokers wrote."""
