"""Manifest lists and manifests."""
