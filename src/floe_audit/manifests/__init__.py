"""Audit of manifest lists and manifests."""
