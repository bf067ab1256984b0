"""Storage plugins and object stores: one module per provider."""
