"""The columns that identify a row, and the properties that name columns."""
