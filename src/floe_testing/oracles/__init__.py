"""Plain models that results are compared with."""
