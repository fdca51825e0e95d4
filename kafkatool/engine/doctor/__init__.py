"""Will a broker start on these directories, and what does it lose if it does: one verdict, and why."""
