"""Read, prove, repair and explain Apache Kafka's on-disk logs."""

__version__ = "0.1.0"
