"""Metrics, exporters, redaction and privacy."""
