"""Open and decode the files of a table."""
