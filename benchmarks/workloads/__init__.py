"""One file a workload; each has ``ARMS``, ``GOALS`` and a title."""
