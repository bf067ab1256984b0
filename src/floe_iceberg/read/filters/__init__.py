"""Row filters: read, fitted to a schema, evaluated on rows, and held against partitions and statistics."""
