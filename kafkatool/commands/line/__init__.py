"""What is typed: options and arguments that commands share, and how a command line is read."""
