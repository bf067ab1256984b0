"""Checks, and the gate that publishes rows that pass them."""
