"""How plugins are discovered, loaded, started and connected."""
