"""Contract suites, fixtures and local services for tests of floe and its plugins."""
