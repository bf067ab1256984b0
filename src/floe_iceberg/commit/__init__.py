"""The one way a change becomes part of a table."""
