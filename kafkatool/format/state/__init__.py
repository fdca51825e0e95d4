"""Read and write small state files: checkpoints, snapshots, properties, and markers."""
