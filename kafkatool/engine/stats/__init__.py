"""Numbers about logs: sizes, rates, codecs, keys, and what another codec would save."""
