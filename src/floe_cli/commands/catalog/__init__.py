"""Catalog commands."""
