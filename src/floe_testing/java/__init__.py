"""Iceberg's Java library, used to write test tables and to verify floe's."""
