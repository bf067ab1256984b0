"""HTTP and OAuth2 for REST catalogs."""
