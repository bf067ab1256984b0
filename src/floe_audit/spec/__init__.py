"""The table format specification: schemas, values, transforms and the audit's rules."""
