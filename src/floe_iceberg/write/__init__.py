"""Writes, in process and on an engine."""
