"""Tables and files of tenants, and their locations."""
