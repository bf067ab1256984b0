"""Off-boarding a tenant."""
