"""Catalog access: connections, namespaces, and calls that are reconciled after ambiguous replies."""
