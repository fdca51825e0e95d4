"""Judge whether a broker will start on its directories, and what it would lose."""
