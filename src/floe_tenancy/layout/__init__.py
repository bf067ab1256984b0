"""What a tenant has, and where it is."""
