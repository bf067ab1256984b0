"""Fetching, starting, sharing and stopping of local servers."""
