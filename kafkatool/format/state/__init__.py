"""Small files of state: checkpoints, snapshots, properties, and marks."""
