"""How fast and how large, beside Kafka's own tool: `python -m benchmarks`."""
