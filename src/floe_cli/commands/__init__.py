"""One module per command or command group, imported on first use."""
