"""Dagster's UI."""
