"""How long a table's snapshots are kept, and legal holds."""
