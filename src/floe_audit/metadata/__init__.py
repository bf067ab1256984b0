"""Audit of table metadata."""
