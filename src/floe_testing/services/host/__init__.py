"""How servers are fetched, started, shared and stopped."""
