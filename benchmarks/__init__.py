"""Compare speed and memory with Kafka's own tools: `python -m benchmarks`."""
