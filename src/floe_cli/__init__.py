"""The command line: ``floe``."""
