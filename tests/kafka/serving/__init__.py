"""`serve` beside a broker, and with real clients."""
