"""Audit of data files and delete files."""
