"""Processes, files, lazy imports, versions and jar coordinates."""
