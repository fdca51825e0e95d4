"""Read what is typed: the options and arguments that verbs share."""
