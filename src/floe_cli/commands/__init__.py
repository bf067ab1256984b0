"""One module a command or command group, imported when it is asked for."""
