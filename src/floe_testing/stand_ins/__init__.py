"""Stand-ins for what cannot run on every machine."""
