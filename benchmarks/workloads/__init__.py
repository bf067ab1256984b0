"""Workloads, one module each, with ``TITLE``, ``ARMS`` and ``GOALS``."""
