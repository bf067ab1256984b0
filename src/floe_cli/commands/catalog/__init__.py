"""Commands about the catalog."""
