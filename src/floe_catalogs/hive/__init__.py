"""The ``hive`` catalog."""
