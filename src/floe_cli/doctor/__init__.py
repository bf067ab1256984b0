"""What ``floe doctor`` checks."""
