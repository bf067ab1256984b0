"""The tenants of a project."""
