"""Commands that run, check and publish assets."""
