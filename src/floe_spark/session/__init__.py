"""Spark sessions on a classic driver or a Spark Connect server."""
