"""The warm local Spark Connect server."""
