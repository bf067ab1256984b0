"""The catalog: connected, its namespaces, and calls whose outcome is always known."""
