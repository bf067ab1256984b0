"""Asset keys, metadata, partitions, settings and validation."""
