"""Tenants of a project."""
