"""Count batches, records, codecs and keys, and try other codecs."""
