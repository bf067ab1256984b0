"""Iceberg's Java library as writer and judge."""
