"""Project commands."""
