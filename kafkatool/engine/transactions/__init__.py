"""Judge the transactions that a log leaves open: how they end, and whether anybody has to act."""
