"""Reference models that test results are compared with."""
