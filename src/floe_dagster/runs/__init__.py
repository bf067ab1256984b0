"""Runs: planned, batched, carried out, remembered."""
