"""Row keys of tables, and table properties that name columns."""
