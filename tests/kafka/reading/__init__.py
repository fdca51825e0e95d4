"""What is read and shown, compared with Kafka's own tools and clients."""
