"""Files of a table, opened and decoded."""
