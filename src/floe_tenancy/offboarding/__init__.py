"""Off-boarding of tenants."""
