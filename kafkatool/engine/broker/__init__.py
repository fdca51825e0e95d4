"""The broker's own rules, mostly pure: indexes, producers, leader epochs, what it refuses and why."""
