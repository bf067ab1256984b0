"""Reads of Iceberg tables: version selection, row filters, scans and integrity checks."""
