"""Follow the broker's own rules: indexes, producers, leader epochs, what it refuses and why."""
