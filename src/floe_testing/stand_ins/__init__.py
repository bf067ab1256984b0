"""Replacements for servers that cannot run on every machine."""
