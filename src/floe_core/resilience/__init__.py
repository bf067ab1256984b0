"""Deadlines and circuit breakers."""
