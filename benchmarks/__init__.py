"""Benchmarks of floe and its peers: the same work and data, on the same machine, in one run."""
