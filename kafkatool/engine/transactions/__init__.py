"""Transactions that a log leaves open: who began them, how they end, and whether anybody has to act."""
