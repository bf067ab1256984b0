"""Checks, and the gate that publishes what passes them."""
