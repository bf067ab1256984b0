"""Retention of snapshots, and legal holds."""
