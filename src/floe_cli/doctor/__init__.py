"""The checks of ``floe doctor``."""
