"""The IO manager: outputs become tables, tables become inputs."""
