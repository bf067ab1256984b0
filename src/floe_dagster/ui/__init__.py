"""Presentation of assets in Dagster's UI, and the UI server."""
