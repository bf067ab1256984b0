"""floe beside its peers: the same work, the same data, the same machine, in one run."""
