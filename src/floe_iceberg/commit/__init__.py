"""Commits to Iceberg tables: snapshots, metadata changes and recovery after lost replies."""
