"""The text of Kafka's own dump tool, release by release."""
