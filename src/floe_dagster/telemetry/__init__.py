"""Spans, lineage events and failure causes of runs."""
