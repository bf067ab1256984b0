"""Java and the jars that Spark needs."""
