"""Faults, injected below and around floe."""
