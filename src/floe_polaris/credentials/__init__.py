"""Vended storage credentials."""
