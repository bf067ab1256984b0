"""The Spark implementation of the data plane."""
