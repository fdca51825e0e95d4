"""Arguments in, text out: one thin module per verb."""
