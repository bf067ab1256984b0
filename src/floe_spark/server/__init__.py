"""The local Spark Connect server that stays running between commands."""
