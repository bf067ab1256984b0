"""Row filters: parsing, schema binding, row evaluation, and pruning by partitions and statistics."""
