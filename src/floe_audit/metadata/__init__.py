"""The table metadata file."""
