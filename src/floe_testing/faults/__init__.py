"""Fault injection below and around floe."""
