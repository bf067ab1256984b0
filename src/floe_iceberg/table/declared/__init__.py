"""Tables and their declaration in floe.yaml: compared, planned, applied."""
