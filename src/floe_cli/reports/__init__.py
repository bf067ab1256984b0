"""Reports of the commands."""
