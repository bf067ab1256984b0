"""Row filters: read, fitted to a schema, evaluated on rows, held against partitions and statistics, and as SQL."""
