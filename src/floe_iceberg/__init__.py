"""floe."""
