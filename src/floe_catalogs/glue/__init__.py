"""The ``glue`` catalog."""
