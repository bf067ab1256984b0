"""How commands present their results."""
