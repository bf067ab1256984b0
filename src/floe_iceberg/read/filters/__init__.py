"""Row filters: parsing, schema binding, row evaluation, pruning by partitions and statistics, and conversion to SQL."""
