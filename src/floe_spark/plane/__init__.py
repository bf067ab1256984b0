"""The data plane on Spark."""
