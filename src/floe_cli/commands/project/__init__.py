"""Commands about the project itself."""
