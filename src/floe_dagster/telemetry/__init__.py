"""Spans, lineage and causes of failure of runs."""
