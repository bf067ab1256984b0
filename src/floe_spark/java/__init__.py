"""Java runtimes and the jars that Spark needs."""
