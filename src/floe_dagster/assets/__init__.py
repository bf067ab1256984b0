"""Assets: their keys, metadata, partitions and settings."""
