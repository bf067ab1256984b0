"""Discover, load, start and connect plugins."""
