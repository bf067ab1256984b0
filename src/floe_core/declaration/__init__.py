"""Declarations in floe.yaml: tables, schedules and locations."""
