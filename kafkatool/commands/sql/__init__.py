"""`kafkatool sql`."""
