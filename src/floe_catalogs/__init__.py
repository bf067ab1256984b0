"""Catalog plugins: SQL databases, Hive and Glue."""
